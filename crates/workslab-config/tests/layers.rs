//! Which layer wins, where a value came from, and what is refused.

use std::ffi::OsString;
use std::path::PathBuf;

use rstest::rstest;
use workslab_config::{BackendConfig, ConfigError, DeviceChoice};
use workslab_core::{Error, Request, SizeCheck};

fn environment(variables: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    variables
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

fn from_env(variables: &[(&str, &str)]) -> Result<BackendConfig, ConfigError> {
    BackendConfig::builder()
        .environment(environment(variables))
        .resolve()
}

struct File {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

fn file(name: &str, text: &str) -> File {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(name);
    std::fs::write(&path, text).expect("a file in it");
    File {
        _folder: folder,
        path,
    }
}

fn from_file(name: &str, text: &str) -> Result<BackendConfig, ConfigError> {
    let file = file(name, text);
    BackendConfig::builder()
        .experiment_file(&file.path)
        .resolve()
}

fn bytes(config: &BackendConfig) -> Option<usize> {
    config.workspace_size.map(|size| size.bytes())
}

#[test]
fn without_a_variable_there_is_no_workspace() {
    let config = from_env(&[]).expect("nothing is wrong");
    assert_eq!(config, BackendConfig::default());
    assert!(matches!(config.slab_request(), Err(Error::NoSize)));
}

#[rstest]
#[case("ICON4PY_BACKEND_WORKSPACE_SIZE")]
#[case("WORKSLAB_WORKSPACE_SIZE")]
fn either_variable_gives_the_size_and_is_its_origin(#[case] variable: &str) {
    let config = from_env(&[(variable, "512MiB")]).expect("a size");
    assert_eq!(bytes(&config), Some(512 << 20));
    let request = config.slab_request().expect("a size");
    assert_eq!(request.origin, Some(variable));
    assert_eq!(request.check, SizeCheck::Exact);
}

#[test]
fn a_workspace_that_grows_may_have_a_cap() {
    let grows = [
        ("WORKSLAB_WORKSPACE_SIZE", "1MiB"),
        ("WORKSLAB_SIZE_CHECK", "grow"),
    ];
    let config = from_env(&grows).expect("a size");
    let request = config.slab_request().expect("a size");
    assert_eq!((request.check, request.cap), (SizeCheck::Grow, None));
    let capped = [grows[0], grows[1], ("WORKSLAB_WORKSPACE_CAP", "1GiB")];
    let config = from_env(&capped).expect("a size and a cap");
    let request = config.slab_request().expect("a size");
    assert_eq!(request.cap.map(|cap| cap.bytes()), Some(1 << 30));
    assert_eq!(
        config.origin("workspace_cap"),
        Some("WORKSLAB_WORKSPACE_CAP")
    );
}

#[test]
fn both_variables_may_be_set_if_they_agree() {
    let both = |first, second| {
        from_env(&[
            ("ICON4PY_BACKEND_WORKSPACE_SIZE", first),
            ("WORKSLAB_WORKSPACE_SIZE", second),
        ])
    };
    let config = both("1073741824", "1GiB").expect("they agree");
    assert_eq!(bytes(&config), Some(1 << 30));
    let error = both("1GiB", "2GiB").expect_err("they do not").to_string();
    for part in [
        "ICON4PY_BACKEND_WORKSPACE_SIZE",
        "\"1GiB\"",
        "WORKSLAB_WORKSPACE_SIZE",
        "\"2GiB\"",
    ] {
        assert!(error.contains(part), "{part} is not in {error}");
    }
}

#[test]
fn each_layer_goes_before_the_one_below() {
    let file = file(
        "experiment.yaml",
        "backend_config:\n  workspace_size: 2KiB\n",
    );
    let builder = BackendConfig::builder();
    assert_eq!(bytes(&builder.resolve().expect("defaults")), None);
    let builder = builder.environment(environment(&[("WORKSLAB_WORKSPACE_SIZE", "1KiB")]));
    assert_eq!(bytes(&builder.resolve().expect("a size")), Some(1 << 10));
    let builder = builder.experiment_file(&file.path);
    let config = builder.resolve().expect("a size");
    assert_eq!(bytes(&config), Some(2 << 10));
    let origin = config.origin("workspace_size").expect("it was set");
    assert!(origin.contains("experiment.yaml"), "{origin}");
    let builder = builder
        .set("workspace_size=3KiB", "--set")
        .set(" workspace_size =4KiB", "--set");
    assert_eq!(bytes(&builder.resolve().expect("a size")), Some(4 << 10));
    let builder = builder.explicit("workspace_size", "5KiB", "--workspace-size");
    let config = builder.resolve().expect("a size");
    assert_eq!(bytes(&config), Some(5 << 10));
    assert_eq!(config.origin("workspace_size"), Some("--workspace-size"));
}

#[test]
fn fields_come_from_different_layers() {
    let file = file(
        "experiment.toml",
        "[backend_config]\nsize_check = \"at-least\"\nguard = true\n",
    );
    let config = BackendConfig::builder()
        .environment(environment(&[
            ("WORKSLAB_WORKSPACE_SIZE", "1KiB"),
            ("WORKSLAB_GUARD", "off"),
            ("WORKSLAB_PREFAULT", "1"),
            ("WORKSLAB_LOCK", "true"),
            ("WORKSLAB_PLATFORM", "host"),
            ("SLURM_LOCALID", "3"),
        ]))
        .experiment_file(&file.path)
        .resolve()
        .expect("all is well");
    assert_eq!(config.size_check, SizeCheck::AtLeast);
    assert!(config.guard && config.prefault && config.lock);
    assert_eq!(config.platform.as_deref(), Some("host"));
    let shown: Vec<_> = config
        .entries()
        .into_iter()
        .map(|entry| (entry.field, entry.value, entry.origin))
        .collect();
    let from_file = format!("{} (backend_config)", file.path.display());
    let row = |field, value: &str, origin: &str| (field, value.to_owned(), origin.to_owned());
    assert_eq!(
        shown,
        [
            row(
                "workspace_size",
                "1 KiB (1024 bytes)",
                "WORKSLAB_WORKSPACE_SIZE"
            ),
            row("size_check", "at-least", &from_file),
            row("workspace_cap", "none", "default"),
            row("guard", "true", &from_file),
            row("prefault", "true", "WORKSLAB_PREFAULT"),
            row("lock", "true", "WORKSLAB_LOCK"),
            row("platform", "host", "WORKSLAB_PLATFORM"),
            row("device", "local rank 3", "SLURM_LOCALID"),
        ]
    );
}

#[rstest]
#[case("a.yaml", "backend_config:\n")]
#[case("a.yaml", "backend_config: {}\n")]
#[case("a.yaml", "backend_config: ~\nother: {deep: [1, 2]}\n")]
#[case("a.toml", "[backend_config]\n")]
fn an_empty_backend_config_means_none_whatever_the_environment_says(
    #[case] name: &str,
    #[case] text: &str,
) {
    let file = file(name, text);
    let builder = BackendConfig::builder()
        .environment(environment(&[("WORKSLAB_WORKSPACE_SIZE", "1KiB")]))
        .experiment_file(&file.path);
    let config = builder.resolve().expect("nothing is wrong");
    assert_eq!(bytes(&config), None);
    let origin = config.origin("workspace_size").expect("the file said so");
    assert!(origin.ends_with("which is empty"), "{origin}");
    // An override is above the file, so it brings the workspace back.
    let config = builder.set("workspace_size=2KiB", "--set").resolve();
    assert_eq!(bytes(&config.expect("a size")), Some(2 << 10));
}

#[rstest]
#[case("a.yaml", "")]
#[case("a.yaml", "# nothing\n")]
#[case("a.yml", "model: icon4py\n")]
#[case("a.toml", "model = \"icon4py\"\n")]
fn a_file_that_says_nothing_of_us_leaves_it_to_the_environment(
    #[case] name: &str,
    #[case] text: &str,
) {
    let file = file(name, text);
    let config = BackendConfig::builder()
        .environment(environment(&[("WORKSLAB_WORKSPACE_SIZE", "1KiB")]))
        .experiment_file(&file.path)
        .resolve()
        .expect("nothing is wrong");
    assert_eq!(bytes(&config), Some(1 << 10));
}

#[rstest]
#[case("a.yaml", "backend_config:\n  workspace_size: 4096\n", 4096)]
#[case("a.yaml", "backend_config:\n  workspace_size: 4 KiB\n", 4096)]
#[case("a.yaml", "backend_config:\n  workspace_size: '4096'\n", 4096)]
#[case("a.toml", "[backend_config]\nworkspace_size = 4096\n", 4096)]
#[case("a.toml", "[backend_config]\nworkspace_size = \"4KiB\"\n", 4096)]
#[case("a.toml", "backend_config = { workspace_size = \"4KiB\" }\n", 4096)]
fn a_file_gives_the_size_as_number_or_text(
    #[case] name: &str,
    #[case] text: &str,
    #[case] expected: usize,
) {
    let config = from_file(name, text).expect("a size");
    assert_eq!(bytes(&config), Some(expected));
}

#[rstest]
#[case("0", "at least 1 byte")]
#[case("-5", "negative")]
#[case("abc", "start with a number")]
#[case("12 parsecs", "unit is unknown")]
#[case("99999999999999999999999", "more than an address")]
#[case("", "empty")]
fn a_bad_size_names_its_source_its_value_and_the_way_out(
    #[case] value: &str,
    #[case] reason: &str,
) {
    for variable in ["ICON4PY_BACKEND_WORKSPACE_SIZE", "WORKSLAB_WORKSPACE_SIZE"] {
        let error = from_env(&[(variable, value)]).expect_err("a bad size");
        one_line_with(&error, &[variable, &format!("{value:?}"), reason]);
    }
    let error = BackendConfig::builder()
        .set(format!("workspace_size={value}"), "--set")
        .resolve()
        .expect_err("a bad size");
    one_line_with(&error, &["--set", reason]);
}

fn one_line_with(error: &ConfigError, parts: &[&str]) {
    let text = error.to_string();
    assert!(!text.contains('\n'), "{text}");
    for part in parts {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[rstest]
#[case("a.yaml", "backend_config:\n  workspace: 1\n", &["unknown field \"workspace\"", "a.yaml", "workspace_size"])]
#[case("a.toml", "[backend_config]\nsize = 1\n", &["unknown field \"size\"", "a.toml"])]
#[case("a.yaml", "backend_config:\n  workspace_size: [1, 2]\n", &["single value", "a.yaml"])]
#[case("a.yaml", "backend_config: 17\n", &["malformed", "a.yaml"])]
#[case("a.yaml", "backend_config: [unclosed\n", &["malformed", "a.yaml"])]
#[case("a.toml", "model = \"icon4py\"\n[backend_config\n", &["malformed", "a.toml", "line 2"])]
#[case("a.yaml", "backend_config:\n  workspace_size: -1\n", &["negative", "a.yaml"])]
#[case("a.yaml", "backend_config:\n  workspace_size: 1.5\n", &["no fraction", "a.yaml"])]
#[case("a.yaml", "backend_config:\n  guard: maybe\n", &["true or false", "\"maybe\""])]
#[case("a.yaml", "backend_config:\n  size_check: larger\n", &["exact, at-least or grow"])]
#[case("a.yaml", "backend_config:\n  workspace_cap: 1GiB\n", &["only a workspace with size_check = grow", "a.yaml"])]
#[case("a.yaml", "backend_config:\n  size_check: grow\n  workspace_size: 2GiB\n  workspace_cap: 1GiB\n", &["2 GiB", "set the cap to at least that", "a.yaml"])]
#[case("a.yaml", "backend_config:\n  size_check: grow\n  workspace_cap: 0\n", &["at least 1 byte", "a.yaml"])]
#[case("a.yaml", "backend_config:\n  device: gpu0\n", &["device's number"])]
#[case("a.yaml", "backend_config:\n  device: -1\n", &["device's number"])]
#[case("a.yaml", "backend_config:\n  platform: ''\n", &["platform's name"])]
#[case("a.ini", "", &[".yaml, .yml or .toml"])]
fn a_bad_file_names_itself_and_what_is_wrong(
    #[case] name: &str,
    #[case] text: &str,
    #[case] parts: &[&str],
) {
    let error = from_file(name, text).expect_err("a bad file");
    one_line_with(&error, parts);
}

proptest::proptest! {
    /// Whatever a file holds, it gives a configuration or an error of one line.
    #[test]
    fn any_file_is_read_or_refused_in_one_line(
        text in "(backend_config|workspace_size|guard|[:= \\n\\[\\]{}\"'0-9a-z-]){0,40}",
        toml: bool,
    ) {
        let name = if toml { "any.toml" } else { "any.yaml" };
        if let Err(error) = from_file(name, &text) {
            one_line_with(&error, &[name]);
        }
    }
}

#[test]
fn a_missing_file_names_itself() {
    let error = BackendConfig::builder()
        .experiment_file("no/such/experiment.yaml")
        .resolve()
        .expect_err("it is not there");
    one_line_with(&error, &["no/such/experiment.yaml", "No such file"]);
}

#[rstest]
#[case("workspace_size", "not of the form")]
#[case("wrkspace_size=1", "unknown field")]
fn a_bad_override_is_named(#[case] text: &str, #[case] reason: &str) {
    let error = BackendConfig::builder()
        .set(text, "--set")
        .resolve()
        .expect_err("a bad override");
    one_line_with(&error, &["--set", reason]);
}

#[test]
fn a_variable_that_is_not_text_is_an_error_only_if_it_is_ours() {
    use std::os::unix::ffi::OsStringExt;
    let bytes = || OsString::from_vec(vec![0xFF, 0xFE]);
    let resolve = |name: &str| {
        BackendConfig::builder()
            .environment([(name.into(), bytes())])
            .resolve()
    };
    resolve("SOMEBODY_ELSES").expect("not ours");
    let error = resolve("WORKSLAB_WORKSPACE_SIZE").expect_err("ours");
    one_line_with(&error, &["WORKSLAB_WORKSPACE_SIZE", "text"]);
}

#[rstest]
#[case(&[], 4, 0)]
#[case(&[("SLURM_LOCALID", "2")], 4, 2)]
#[case(&[("SLURM_LOCALID", "5")], 4, 1)]
#[case(&[("SLURM_LOCALID", "5")], 1, 0)]
#[case(&[("SLURM_LOCALID", "2"), ("WORKSLAB_DEVICE", "3")], 4, 3)]
#[case(&[("OMPI_COMM_WORLD_LOCAL_RANK", "2"), ("WORKSLAB_DEVICE", "local-rank")], 4, 2)]
fn the_device_is_the_one_set_or_the_launchers_rank(
    #[case] variables: &[(&str, &str)],
    #[case] devices: u32,
    #[case] expected: u32,
) {
    let config = from_env(variables).expect("all is well");
    let device = config.device_for(devices).expect("a device");
    assert_eq!(device.ordinal(), expected);
}

#[test]
fn a_local_rank_that_nobody_set_is_not_guessed() {
    let config = from_env(&[("WORKSLAB_DEVICE", "local-rank")]).expect("it can be asked for");
    assert_eq!(config.device, DeviceChoice::LocalRank);
    let error = config.device_for(4).expect_err("no launcher");
    one_line_with(&error, &["WORKSLAB_DEVICE", "Slurm"]);
}
