//! What a program's functions take, read from the C declarations that DaCe writes.

use std::fmt;

use libffi::middle::Type;

use crate::Error;

/// A type of C, as far as compiled programs take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is what it is called")]
pub enum CType {
    Bool,
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
    Pointer,
}

impl CType {
    /// The type that a declaration's words name, without `const` and the parameter's name.
    fn of(words: &[&str]) -> Option<Self> {
        Some(match words {
            ["bool" | "_Bool"] => Self::Bool,
            ["char" | "int8_t"] | ["signed", "char"] => Self::I8,
            ["uint8_t"] | ["unsigned", "char"] => Self::U8,
            ["short" | "int16_t"] => Self::I16,
            ["uint16_t"] | ["unsigned", "short"] => Self::U16,
            ["int" | "int32_t"] => Self::I32,
            ["uint32_t" | "unsigned"] | ["unsigned", "int"] => Self::U32,
            ["long" | "int64_t" | "ptrdiff_t" | "ssize_t"] | ["long", "long"] => Self::I64,
            ["uint64_t" | "size_t"] | ["unsigned", "long"] | ["unsigned", "long", "long"] => {
                Self::U64
            }
            ["float"] => Self::F32,
            ["double"] => Self::F64,
            _ => return None,
        })
    }

    pub(crate) fn ffi(self) -> Type {
        match self {
            Self::Bool | Self::U8 => Type::u8(),
            Self::I8 => Type::i8(),
            Self::I16 => Type::i16(),
            Self::U16 => Type::u16(),
            Self::I32 => Type::i32(),
            Self::U32 => Type::u32(),
            Self::I64 => Type::i64(),
            Self::U64 => Type::u64(),
            Self::F32 => Type::f32(),
            Self::F64 => Type::f64(),
            Self::Pointer => Type::pointer(),
        }
    }
}

impl fmt::Display for CType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "bool",
            Self::I8 => "int8_t",
            Self::U8 => "uint8_t",
            Self::I16 => "int16_t",
            Self::U16 => "uint16_t",
            Self::I32 => "int32_t",
            Self::U32 => "uint32_t",
            Self::I64 => "int64_t",
            Self::U64 => "uint64_t",
            Self::F32 => "float",
            Self::F64 => "double",
            Self::Pointer => "pointer",
        })
    }
}

/// One parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ctype: CType,
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.ctype, self.name)
    }
}

/// What a program takes: its symbols when it starts, and its arguments when it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The program's name.
    pub name: String,
    /// What `__dace_init_NAME` takes.
    pub symbols: Vec<Parameter>,
    /// What `__program_NAME` takes behind its handle.
    pub arguments: Vec<Parameter>,
}

impl Signature {
    /// From a list of symbols and one of arguments in C, as `"int N"` and `"double *A, double *B, int N"`: for a
    /// library without its header.
    ///
    /// # Errors
    /// [`Error::Declaration`].
    pub fn new(name: &str, symbols: &str, arguments: &str) -> Result<Self, Error> {
        Ok(Self {
            name: name.to_owned(),
            symbols: parameters(symbols)?,
            arguments: parameters(arguments)?,
        })
    }

    /// From the header that DaCe writes into a build folder, `include/NAME.h`.
    ///
    /// # Errors
    /// [`Error::Declaration`] if the program's functions are not in it, or take what is not understood.
    pub fn of_header(name: &str, header: &str) -> Result<Self, Error> {
        let arguments = declared(header, &format!("__program_{name}"))?;
        // The handle comes first.
        let behind_handle = arguments.split_once(',').map_or("", |(_, rest)| rest);
        Self::new(
            name,
            declared(header, &format!("__dace_init_{name}"))?,
            behind_handle,
        )
    }
}

/// What is between the parentheses behind a function's name.
fn declared<'h>(header: &'h str, function: &str) -> Result<&'h str, Error> {
    let found = header.match_indices(function).find_map(|(at, _)| {
        let inside = header[at + function.len()..]
            .trim_start()
            .strip_prefix('(')?;
        inside.split_once(')').map(|(inside, _)| inside)
    });
    found.ok_or_else(|| Error::Declaration {
        text: function.to_owned(),
        reason: "the header does not declare it; give a signature".to_owned(),
    })
}

fn parameters(list: &str) -> Result<Vec<Parameter>, Error> {
    let list = list.trim();
    if list.is_empty() || list == "void" {
        return Ok(Vec::new());
    }
    list.split(',').map(parameter).collect()
}

fn parameter(text: &str) -> Result<Parameter, Error> {
    let failed = |reason: &str| Error::Declaration {
        text: text.trim().to_owned(),
        reason: reason.to_owned(),
    };
    let spaced = text.replace('*', " * ").replace('&', " & ");
    let mut words: Vec<&str> = spaced
        .split_whitespace()
        .filter(|word| !["const", "__restrict__", "restrict", "__restrict"].contains(word))
        .collect();
    let name = words
        .pop()
        .filter(|name| name.starts_with(|first: char| first.is_alphabetic() || first == '_'))
        .ok_or_else(|| failed("a parameter is a type and a name"))?;
    if words.is_empty() {
        return Err(failed("a parameter is a type and a name"));
    }
    let ctype = if words.contains(&"*") {
        CType::Pointer
    } else {
        CType::of(&words).ok_or_else(|| {
            failed("its type is none of bool, the integers of C and <stdint.h>, float, double and pointers")
        })?
    };
    Ok(Parameter {
        name: name.to_owned(),
        ctype,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_of_daces_is_read() {
        let header = "#include <dace/dace.h>\n\
            typedef void * smoothHandle_t;\n\
            extern \"C\" smoothHandle_t __dace_init_smooth(int N, int64_t M);\n\
            extern \"C\" int __dace_exit_smooth(smoothHandle_t handle);\n\
            extern \"C\" void __program_smooth(smoothHandle_t handle, double * __restrict__ A, const float *B, \
            bool deep, unsigned long long K, int N);\n";
        let signature = Signature::of_header("smooth", header).expect("all is known");
        let shown = |list: &[Parameter]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(shown(&signature.symbols), ["int32_t N", "int64_t M"]);
        assert_eq!(
            shown(&signature.arguments),
            [
                "pointer A",
                "pointer B",
                "bool deep",
                "uint64_t K",
                "int32_t N"
            ]
        );
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for (symbols, says) in [
            ("dace::float16 h", "its type is none"),
            ("int", "a type and a name"),
            ("int N,, int M", "a type and a name"),
        ] {
            let error = Signature::new("x", symbols, "").expect_err(symbols);
            assert!(error.to_string().contains(says), "{error}");
        }
        let error = Signature::of_header("x", "void other(int N);").expect_err("not there");
        assert!(error.to_string().contains("__program_x"), "{error}");
        assert_eq!(
            Signature::new("x", "void", "").expect("nothing").symbols,
            []
        );
    }
}
