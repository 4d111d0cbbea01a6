//! Certificates: the node's and its clients', which both show theirs (mutual TLS 1.3).

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::error::{Error, Result};

/// The files of one side, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// Its certificate, and those between it and the other side's authority.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authority that signs the other side's certificates.
    pub ca: PathBuf,
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn wrong(path: &Path, why: &dyn fmt::Display) -> Error {
    Error::invalid(format_args!("{}: {why}", path.display()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let all: Vec<_> = read.map_err(|error| wrong(path, &error))?;
    if all.is_empty() {
        return Err(wrong(path, &"there is no certificate in it (PEM)"));
    }
    Ok(all)
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| wrong(path, &error))
}

fn authority(path: &Path) -> Result<Arc<RootCertStore>> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots
            .add(certificate)
            .map_err(|error| wrong(path, &error))?;
    }
    Ok(Arc::new(roots))
}

/// The node's side: clients without a certificate of the authority are refused.
pub fn server(files: &Files) -> Result<Arc<ServerConfig>> {
    let roots = authority(&files.ca)?;
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
    let verifier = verifier.map_err(|error| wrong(&files.ca, &error))?;
    let config =
        ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let config = config.map_err(Error::failed)?;
    let config = config
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates(&files.cert)?, key(&files.key)?);
    Ok(Arc::new(
        config.map_err(|error| wrong(&files.cert, &error))?,
    ))
}

/// A client's side.
pub fn client(files: &Files) -> Result<Arc<ClientConfig>> {
    let config =
        ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let config = config.map_err(Error::failed)?;
    let config = config
        .with_root_certificates(authority(&files.ca)?)
        .with_client_auth_cert(certificates(&files.cert)?, key(&files.key)?);
    Ok(Arc::new(
        config.map_err(|error| wrong(&files.cert, &error))?,
    ))
}

/// The names in a certificate: the common name, then the alternative ones.
pub fn names(certificate: &[u8]) -> Vec<String> {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else {
        return Vec::new();
    };
    let common = certificate.subject().iter_common_name();
    let mut names: Vec<String> = common
        .filter_map(|name| name.as_str().ok().map(str::to_string))
        .collect();
    if let Ok(Some(others)) = certificate.subject_alternative_name() {
        names.extend(
            others
                .value
                .general_names
                .iter()
                .filter_map(|name| match name {
                    GeneralName::DNSName(name)
                    | GeneralName::RFC822Name(name)
                    | GeneralName::URI(name) => Some(name.to_string()),
                    _ => None,
                }),
        );
    }
    names
}
