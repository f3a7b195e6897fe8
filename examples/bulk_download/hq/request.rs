//! What is asked for: `GET /path` and the end of the line, on a stream of its own. The answer is the file, up to
//! the end of the stream; HTTP/0.9 has no status, so a refusal is a reset of the stream.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use percent_encoding::percent_decode;

/// What both ends agree on in the handshake (RFC 7301).
pub const ALPN: &[u8] = b"hq-interop";

/// Longest request in bytes, its end of line included.
pub const LONGEST: usize = 4096;

/// Why a request gets no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("not of the form `GET /path`")]
    Malformed,
    #[error("the path leads out of the directory, or to what may not be read")]
    Forbidden,
    #[error("no such file")]
    NotFound,
    #[error("not complete in time")]
    Late,
    #[error("longer than {LONGEST} bytes")]
    TooLong,
    #[error("the file cannot be read")]
    Unreadable,
}

impl Refusal {
    /// What the stream is reset with: the status that HTTP has for it (RFC 9110 §15).
    pub fn code(self) -> u32 {
        match self {
            Self::Malformed => 400,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::Late => 408,
            Self::TooLong => 414,
            Self::Unreadable => 500,
        }
    }
}

/// The request for `path`, which is percent-encoded and begins with a slash.
pub fn request(path: &str) -> String {
    format!("GET {path}\r\n")
}

/// The path that is asked for, relative and without `..`. The line may end with CR LF, LF or the stream.
pub fn requested(request: &[u8]) -> Result<PathBuf, Refusal> {
    let line = request.strip_suffix(b"\n").map_or(request, |line| line.strip_suffix(b"\r").unwrap_or(line));
    let encoded = line.strip_prefix(b"GET /").ok_or(Refusal::Malformed)?;
    if encoded.iter().any(|byte| byte.is_ascii_whitespace() || byte.is_ascii_control()) {
        return Err(Refusal::Malformed);
    }
    let decoded: Vec<u8> = percent_decode(encoded).collect();
    if decoded.contains(&0) {
        return Err(Refusal::Malformed);
    }
    let path = Path::new(OsStr::from_bytes(&decoded));
    if path.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(Refusal::Forbidden);
    }
    if decoded.is_empty() { Err(Refusal::NotFound) } else { Ok(path.to_owned()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(text: &str) -> Result<PathBuf, Refusal> {
        Ok(text.into())
    }

    #[test]
    fn a_line_may_end_in_three_ways() {
        for line in ["GET /a/b.bin\r\n", "GET /a/b.bin\n", "GET /a/b.bin"] {
            assert_eq!(requested(line.as_bytes()), path("a/b.bin"), "{line:?}");
        }
        assert_eq!(requested(request("/a/b.bin").as_bytes()), path("a/b.bin"));
    }

    #[test]
    fn escapes_are_decoded_once() {
        assert_eq!(requested(b"GET /two%20words"), path("two words"));
        assert_eq!(requested(b"GET /%252e"), path("%2e"));
        assert_eq!(requested(b"GET /100%"), path("100%"));
    }

    #[test]
    fn what_climbs_is_forbidden_in_every_spelling() {
        for line in [
            "GET /..",
            "GET /../etc/passwd",
            "GET /a/../../etc/passwd",
            "GET /%2e%2e/etc/passwd",
            "GET /.%2E%2fetc%2fpasswd",
            "GET //etc/passwd",
            "GET /%2fetc/passwd",
        ] {
            assert_eq!(requested(line.as_bytes()), Err(Refusal::Forbidden), "{line}");
        }
    }

    #[test]
    fn what_is_no_request_is_malformed() {
        for line in [
            "",
            "GET",
            "GET a",
            "get /a",
            "POST /a\r\n",
            "GET /a HTTP/1.1\r\nHost: b\r\n\r\n",
            "GET /a\r\nGET /b\r\n",
            "GET /a\0b",
            "GET /a%00b",
            "GET /a\r",
        ] {
            assert_eq!(requested(line.as_bytes()), Err(Refusal::Malformed), "{line:?}");
        }
        assert_eq!(requested(b"GET /"), Err(Refusal::NotFound));
    }

    proptest! {
        /// Any bytes at all: no panic, and no path that leaves a directory that it is joined to.
        #[test]
        fn a_path_never_climbs(
            start in prop::sample::select(vec!["", "GET ", "GET /", "GET /a/"]),
            rest in prop::collection::vec(prop_oneof![
                any::<u8>().prop_map(|byte| vec![byte]),
                prop::sample::select(vec!["..", "/", "%2e", "%2F", "%00", "\r\n"]).prop_map(|text| text.into()),
            ], 0..20),
        ) {
            let bytes = [start.as_bytes(), &rest.concat()].concat();
            if let Ok(path) = requested(&bytes) {
                prop_assert!(path.is_relative());
                prop_assert!(!path.components().any(|part| part == Component::ParentDir));
                prop_assert!(!path.as_os_str().as_bytes().contains(&0));
            }
        }
    }
}
