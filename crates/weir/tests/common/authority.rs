//! Certificates for tests.

use std::path::{Path, PathBuf};

use node::tls::Files;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// An authority, and the folder of the certificates that it signs.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub folder: PathBuf,
}

impl Authority {
    pub fn new(folder: &Path) -> Authority {
        std::fs::create_dir_all(folder).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(folder.join("ca.pem"), certificate.pem()).unwrap();
        Authority {
            issuer: Issuer::new(params, key),
            folder: folder.into(),
        }
    }

    /// A certificate with a common name and alternative ones.
    pub fn sign(&self, common: &str, others: &[&str]) -> Files {
        self.sign_until(common, others, 4000)
    }

    /// A certificate that is valid until the end of a year.
    pub fn sign_until(&self, common: &str, others: &[&str], year: i32) -> Files {
        let key = KeyPair::generate().unwrap();
        let others: Vec<_> = others.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(others).unwrap();
        params.distinguished_name.push(DnType::CommonName, common);
        params.not_after = rcgen::date_time_ymd(year, 12, 31);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let file = |kind: &str, text: String| {
            let path = self.folder.join(format!("{common}.{kind}"));
            std::fs::write(&path, text).unwrap();
            path
        };
        Files {
            cert: file("pem", certificate.pem()),
            key: file("key", key.serialize_pem()),
            ca: self.folder.join("ca.pem"),
        }
    }
}
