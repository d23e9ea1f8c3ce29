// SPDX-License-Identifier: Apache-2.0
//! A camera over HTTP or HTTPS as a child process, and certificates for it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::clips::gst_launch;

/// User and password of its paths that ask for them.
pub const LOGIN: (&str, &str) = ("admin", "p@ss:1");

/// Serves a white image and a white stream until it is dropped.
pub struct HttpCamera {
    child: Child,
    address: String,
}

impl HttpCamera {
    /// Starts it, with TLS where there is a `certificate` with its key.
    pub fn start(folder: &Path, certificate: Option<&Path>) -> Self {
        let (image, stream) = (folder.join("image.jpg"), folder.join("stream.ts"));
        if !stream.exists() {
            let white = "videotestsrc pattern=white ! video/x-raw,format=I420,width=160,height=120,framerate=25/1";
            let numbered =
                |count| white.replace("pattern", &format!("num-buffers={count} pattern"));
            gst_launch(&format!(
                "{} ! jpegenc ! filesink location={}",
                numbered(1),
                image.display()
            ));
            gst_launch(&format!(
                "{} ! x264enc key-int-max=5 speed-preset=ultrafast ! mpegtsmux ! filesink location={}",
                numbered(50),
                stream.display()
            ));
        }
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/http_camera.py");
        let mut child = Command::new("/usr/bin/python3")
            .arg(script)
            .args([&image, &stream])
            .args(certificate)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("/usr/bin/python3 starts");
        let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        let port = lines.next().expect("it prints its port").expect("text");
        let scheme = if certificate.is_some() {
            "https"
        } else {
            "http"
        };
        Self {
            child,
            address: format!("{scheme}://127.0.0.1:{port}"),
        }
    }

    /// The address of a path.
    pub fn uri(&self, path: &str) -> String {
        format!("{}/{path}", self.address)
    }

    /// The answers so far of a camera without TLS: path and status.
    pub fn answers(&self) -> Vec<String> {
        let address = self.address.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).expect("it listens");
        let request = b"GET /answers HTTP/1.0\r\n\r\n";
        stream.write_all(request).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("text");
        let (_, lines) = answer.split_once("\r\n\r\n").expect("a body");
        lines.lines().map(str::to_owned).collect()
    }
}

impl Drop for HttpCamera {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A certificate and a file that has its key, too.
pub struct Certificate {
    pub certificate: PathBuf,
    pub with_key: PathBuf,
}

/// Makes the certificate `name` for `host`, such as `IP:127.0.0.1`. Without `authority` it is signed by itself.
pub fn certificate(folder: &Path, name: &str, host: &str, authority: Option<&str>) -> Certificate {
    let path = |ending: &str| folder.join(format!("{name}.{ending}"));
    let openssl = |line: &str| {
        let made = Command::new("openssl")
            .args(line.split_whitespace())
            .current_dir(folder)
            .output()
            .expect("this test needs the program openssl: apt-get install openssl");
        assert!(made.status.success(), "{made:?}");
    };
    let request = format!(
        "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout {name}.key -subj /CN={name}"
    );
    match authority {
        None => openssl(&format!(
            "{request} -x509 -out {name}.crt -days 2 -addext subjectAltName={host}"
        )),
        // OpenSSL 1.1 cannot sign in the same step.
        Some(authority) => {
            let extensions = format!("subjectAltName={host}\nbasicConstraints=critical,CA:FALSE\n");
            std::fs::write(path("ext"), extensions).expect("the folder is writable");
            openssl(&format!("{request} -new -out {name}.csr"));
            openssl(&format!(
                "x509 -req -in {name}.csr -out {name}.crt -days 2 -CA {authority}.crt -CAkey {authority}.key -CAcreateserial -extfile {name}.ext"
            ));
        }
    }
    let read = |ending: &str| std::fs::read_to_string(path(ending)).expect("openssl wrote it");
    std::fs::write(path("pem"), read("crt") + &read("key")).expect("the folder is writable");
    Certificate {
        certificate: path("crt"),
        with_key: path("pem"),
    }
}
