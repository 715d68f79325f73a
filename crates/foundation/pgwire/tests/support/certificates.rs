//! Certificates of every kind that matters, made by the openssl command.

use super::{give, succeed};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory of certificates and keys; `NAME.crt` and `NAME.key`.
pub struct Certificates {
    pub dir: PathBuf,
}

impl Certificates {
    /// An empty directory.
    pub fn in_dir(dir: &Path) -> Certificates {
        fs::create_dir_all(dir).expect("directory");
        give(dir);
        Certificates {
            dir: dir.to_owned(),
        }
    }

    /// The path of a file in it.
    pub fn path(&self, file: &str) -> String {
        self.dir.join(file).to_str().expect("UTF-8").to_owned()
    }

    fn openssl(&self, arguments: &[&str]) {
        succeed(
            Command::new("openssl")
                .current_dir(&self.dir)
                .args(arguments),
        );
    }

    fn key(&self, name: &str, algorithm: &[&str]) {
        let mut arguments = vec!["genpkey", "-out"];
        let file = format!("{name}.key");
        arguments.push(&file);
        arguments.extend(algorithm);
        self.openssl(&arguments);
        fs::set_permissions(self.dir.join(&file), fs::Permissions::from_mode(0o600))
            .expect("chmod");
    }

    /// A self-signed certificate, an authority as `openssl req -x509` makes
    /// them unless told otherwise.
    pub fn authority(&self, name: &str, common_name: &str, algorithm: &[&str]) {
        self.key(name, algorithm);
        let (key, crt, subject) = (
            format!("{name}.key"),
            format!("{name}.crt"),
            format!("/CN={common_name}"),
        );
        let arguments = [
            "req", "-x509", "-new", "-key", &key, "-out", &crt, "-days", "30", "-subj", &subject,
        ];
        self.openssl(&arguments);
    }

    /// A certificate signed by `issuer`. Without extensions it is version 1,
    /// as the recipe in PostgreSQL's manual makes it.
    pub fn signed(
        &self,
        name: &str,
        issuer: &str,
        common_name: &str,
        extensions: &str,
        how: &Signed,
    ) {
        self.key(name, how.key);
        let (key, csr, crt) = (
            format!("{name}.key"),
            format!("{name}.csr"),
            format!("{name}.crt"),
        );
        self.openssl(&[
            "req",
            "-new",
            "-key",
            &key,
            "-out",
            &csr,
            "-subj",
            &format!("/CN={common_name}"),
        ]);
        let (ca, ca_key) = (format!("{issuer}.crt"), format!("{issuer}.key"));
        let mut arguments = vec![
            "x509",
            "-req",
            "-in",
            &csr,
            "-CA",
            &ca,
            "-CAkey",
            &ca_key,
            "-CAcreateserial",
            "-out",
            &crt,
            "-days",
            how.days,
            how.hash,
        ];
        let extension_file = format!("{name}.ext");
        if !extensions.is_empty() {
            fs::write(self.dir.join(&extension_file), extensions).expect("extensions");
            arguments.extend(["-extfile", &extension_file]);
        }
        self.openssl(&arguments);
    }

    /// A list that revokes one certificate of `issuer`.
    pub fn revoke(&self, list: &str, issuer: &str, revoked: &str) {
        fs::write(self.dir.join("index.txt"), "").expect("index");
        fs::write(self.dir.join("crlnumber"), "01\n").expect("crlnumber");
        let configuration = "[ca]\ndefault_ca=d\n[d]\ndatabase=index.txt\ndefault_md=sha256\n\
                             default_crl_days=30\ncrlnumber=crlnumber\ncrl_extensions=e\n\
                             [e]\nauthorityKeyIdentifier=keyid\n";
        fs::write(self.dir.join("ca.cnf"), configuration).expect("ca.cnf");
        let (cert, key) = (format!("{issuer}.crt"), format!("{issuer}.key"));
        let common = ["ca", "-config", "ca.cnf", "-cert", &cert, "-keyfile", &key];
        let revoked = format!("{revoked}.crt");
        self.openssl(&[&common[..], &["-revoke", &revoked]].concat());
        self.openssl(&[&common[..], &["-gencrl", "-out", list]].concat());
    }

    /// Lets the server's user read a key.
    pub fn give_to_server(&self, name: &str) {
        give(&self.dir.join(format!("{name}.key")));
    }
}

/// How a certificate is signed.
pub struct Signed {
    pub key: &'static [&'static str],
    pub hash: &'static str,
    pub days: &'static str,
}

pub const EC: &[&str] = &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"];
pub const RSA: &[&str] = &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"];

impl Default for Signed {
    fn default() -> Signed {
        Signed {
            key: EC,
            hash: "-sha256",
            days: "30",
        }
    }
}
