//! Where DaCe places the external arrays of a program, by its SDFG.

use std::path::Path;

use serde_json::Value as Json;

use crate::Error;

/// In the global code of an SDFG whose transients `workslab.dace.plan` placed, aligned.
const PLANNED: &str = "workslab: transients planned";

/// The external arrays of an SDFG, in the order in which DaCe places them.
#[derive(Clone, Debug)]
pub struct Placement {
    planned: bool,
    arrays: Vec<External>,
}

#[derive(Clone, Debug)]
struct External {
    name: String,
    storage: String,
    /// Elements, as DaCe writes it.
    elements: String,
    bytes: usize,
    alignment: usize,
}

impl Placement {
    /// Reads `program.sdfg`.
    pub(crate) fn of_sdfg(path: &Path, text: &str) -> Result<Self, Error> {
        let json: Json = serde_json::from_str(text).map_err(|error| Error::File {
            path: path.to_owned(),
            reason: format!("it is no SDFG ({error})"),
        })?;
        let mut arrays = Vec::new();
        collect(&json, &mut arrays);
        let code = json["attributes"]["global_code"].to_string();
        Ok(Self {
            planned: code.contains(PLANNED),
            arrays,
        })
    }

    /// Whether the arrays were aligned, and perhaps share bytes, by `workslab.dace.plan`.
    #[must_use]
    pub fn is_planned(&self) -> bool {
        self.planned
    }

    /// How many arrays a storage has.
    #[must_use]
    pub fn arrays(&self, storage: &str) -> usize {
        let of_storage = self.arrays.iter().filter(|array| array.storage == storage);
        of_storage.count()
    }

    /// Refuses a placement that is misaligned. It is followed as far as the sizes are products of numbers and
    /// symbols.
    pub(crate) fn check(
        &self,
        program: &str,
        storage: &str,
        base: usize,
        symbol: impl Fn(&str) -> Option<i128>,
    ) -> Result<(), Error> {
        if self.planned {
            return Ok(());
        }
        let mut offset = 0_usize;
        for array in self.arrays.iter().filter(|array| array.storage == storage) {
            if !(base.wrapping_add(offset)).is_multiple_of(array.alignment) {
                return Err(Error::Misaligned {
                    program: program.to_owned(),
                    array: array.name.clone(),
                    offset,
                    alignment: array.alignment,
                });
            }
            let size = product(&array.elements, &symbol)
                .and_then(|elements| usize::try_from(elements).ok())
                .and_then(|elements| elements.checked_mul(array.bytes))
                .and_then(|size| offset.checked_add(size));
            match size {
                Some(end) => offset = end,
                None => break,
            }
        }
        Ok(())
    }
}

/// The external arrays of an SDFG, and then of those nested in it.
fn collect(sdfg: &Json, found: &mut Vec<External>) {
    let text = |value: &Json| value.as_str().map(str::to_owned);
    for (name, array) in sdfg["attributes"]["_arrays"]
        .as_object()
        .into_iter()
        .flatten()
    {
        let attributes = &array["attributes"];
        if attributes["lifetime"] != "External" || attributes["transient"] != true {
            continue;
        }
        let (bytes, alignment) = attributes["dtype"].as_str().map_or((1, 1), element);
        let storage = match text(&attributes["storage"]) {
            // Where code generation puts what says nothing.
            None => "CPU_Heap".to_owned(),
            Some(storage) if storage == "Default" => "CPU_Heap".to_owned(),
            Some(storage) => storage,
        };
        found.push(External {
            name: name.clone(),
            storage,
            elements: text(&attributes["total_size"]).unwrap_or_default(),
            bytes,
            alignment,
        });
    }
    nested(&sdfg["nodes"], found);
}

/// Looks for nested SDFGs in blocks and nodes.
fn nested(blocks: &Json, found: &mut Vec<External>) {
    for block in blocks.as_array().into_iter().flatten() {
        let inner = &block["attributes"]["sdfg"];
        if inner.is_object() {
            collect(inner, found);
        }
        nested(&block["nodes"], found);
        for branch in block["branches"].as_array().into_iter().flatten() {
            nested(&branch[1]["nodes"], found);
        }
    }
}

/// Bytes of an element and what it must be aligned to. What is not known is taken to be aligned anywhere.
fn element(dtype: &str) -> (usize, usize) {
    match dtype {
        "bool" | "bool_" | "int8" | "uint8" => (1, 1),
        "int16" | "uint16" | "float16" => (2, 2),
        "int32" | "uint32" | "float32" => (4, 4),
        "int64" | "uint64" | "float64" => (8, 8),
        "complex64" => (8, 4),
        "complex128" => (16, 8),
        _ => (1, 1),
    }
}

/// The value of a product of numbers and symbols, or nothing.
fn product(text: &str, symbol: impl Fn(&str) -> Option<i128>) -> Option<i128> {
    text.split('*').try_fold(1_i128, |product, factor| {
        let factor = factor.trim();
        let value = factor.parse().ok().or_else(|| symbol(factor))?;
        product.checked_mul(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sdfg(code: &str) -> Placement {
        let text = format!(
            r#"{{"attributes": {{"global_code": {{"frame": "{code}"}}, "_arrays": {{
                "small": {{"attributes": {{"lifetime": "External", "transient": true, "dtype": "float32",
                    "total_size": "3", "storage": "CPU_Heap"}}}},
                "out": {{"attributes": {{"lifetime": "Scope", "transient": false, "dtype": "float64"}}}}}}}},
              "nodes": [{{"nodes": [{{"attributes": {{"sdfg": {{"attributes": {{"_arrays": {{
                "large": {{"attributes": {{"lifetime": "External", "transient": true, "dtype": "float64",
                    "total_size": "2*N", "storage": "Default"}}}},
                "last": {{"attributes": {{"lifetime": "External", "transient": true, "dtype": "float64",
                    "total_size": "N", "storage": "CPU_Heap"}}}}}}}}}}}}}}]}}]}}"#
        );
        Placement::of_sdfg(Path::new("program.sdfg"), &text).expect("an SDFG")
    }

    #[test]
    fn what_dace_misaligns_is_found() {
        let placement = sdfg("");
        assert_eq!(placement.arrays("CPU_Heap"), 3);
        let error = placement
            .check("x", "CPU_Heap", 4096, |_| Some(1))
            .expect_err("behind three float32");
        assert!(error.to_string().contains("'large'") && error.to_string().contains("byte 12"));
        // From an address that makes up for it, all is well.
        placement
            .check("x", "CPU_Heap", 4, |_| Some(1))
            .expect("12 and 4 are 16");
        placement
            .check("x", "GPU_Global", 1, |_| None)
            .expect("has none");
    }

    #[test]
    fn a_planned_program_is_aligned() {
        let placement = sdfg("// workslab: transients planned, 256 bytes aligned");
        assert!(placement.is_planned());
        placement
            .check("x", "CPU_Heap", 4096, |_| Some(1))
            .expect("planned");
    }

    #[test]
    fn what_is_no_sdfg_is_an_error() {
        let error = Placement::of_sdfg(Path::new("program.sdfg"), "{").expect_err("half");
        assert!(
            error.to_string().starts_with("program.sdfg: it is no SDFG"),
            "{error}"
        );
    }
}
