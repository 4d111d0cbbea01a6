//! Certificates of the node and of its clients (mutual TLS 1.3).

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{
    self, AlertDescription, CertificateError, ClientConfig, RootCertStore, ServerConfig,
};
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
    let all: Vec<_> = read.map_err(|error| wrong(path, &unread(&error, "certificate")))?;
    if all.is_empty() {
        return Err(wrong(path, &"there is no certificate in it (PEM)"));
    }
    Ok(all)
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| wrong(path, &unread(&error, "private key")))
}

/// Why a file of PEM cannot be read.
fn unread(error: &pem::Error, what: &str) -> String {
    match error {
        pem::Error::Io(error) => error.to_string(),
        pem::Error::NoItemsFound => format!("there is no {what} in it (PEM)"),
        _ => format!("the {what} in it is damaged: it is no valid PEM"),
    }
}

fn authority(path: &Path) -> Result<Arc<RootCertStore>> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|_| {
            wrong(
                path,
                &"the certificate in it is damaged, or is no authority's",
            )
        })?;
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
    Ok(Arc::new(config.map_err(|error| unfit(files, &error))?))
}

/// Why a certificate and a key are not of use.
fn unfit(files: &Files, error: &rustls::Error) -> Error {
    let key = files.key.display();
    wrong(
        &files.cert,
        &match error {
            rustls::Error::InconsistentKeys(_) => {
                format!("the certificate in it is not that of the private key in {key}")
            }
            _ => format!("the certificate in it, or the private key in {key}, is damaged"),
        },
    )
}

/// A client's side.
pub fn client(files: &Files) -> Result<Arc<ClientConfig>> {
    let config =
        ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let config = config.map_err(Error::failed)?;
    let config = config
        .with_root_certificates(authority(&files.ca)?)
        .with_client_auth_cert(certificates(&files.cert)?, key(&files.key)?);
    Ok(Arc::new(config.map_err(|error| unfit(files, &error))?))
}

/// Which side tells what went wrong with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A client, of the node that it asks.
    Client,
    /// A host of a cluster, of etcd.
    Etcd,
    /// A node, of a client.
    Node,
}

impl Side {
    /// The file of this side by which the other's certificate is judged.
    fn authority(self) -> &'static str {
        match self {
            Side::Client => "the authority given by `--ca`",
            Side::Etcd => "the authority given by `--tls-ca`",
            Side::Node => "the authority given by `--tls-client-ca`",
        }
    }

    fn own(self) -> &'static str {
        match self {
            Side::Client => "this client's certificate",
            Side::Etcd => "the certificate of this host",
            Side::Node => "the certificate of this node",
        }
    }
}

/// The error of TLS behind another one, if there is one.
pub fn cause<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        let inner = error.downcast_ref::<io::Error>();
        let inner = inner.and_then(io::Error::get_ref);
        let tls = inner.and_then(|error| error.downcast_ref::<rustls::Error>());
        if let Some(tls) = tls.or_else(|| error.downcast_ref()) {
            return Some(tls);
        }
        next = error.source();
    }
    None
}

/// What went wrong with a connection, in plain words.
pub fn sentence(side: Side, error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref()) {
        Some(tls) => tls_sentence(side, tls),
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            "the other side ended the connection before both had shown their certificates".into()
        }
        None => error.to_string(),
    }
}

/// What went wrong with TLS, in plain words.
pub fn tls_sentence(side: Side, error: &rustls::Error) -> String {
    use rustls::Error as Tls;
    match error {
        Tls::InvalidCertificate(why) => certificate_sentence(side, why),
        Tls::NoCertificatesPresented => "it showed no certificate: clients of the network show one that is signed by the authority given by `--tls-client-ca`".into(),
        Tls::AlertReceived(alert) => format!("it refused {}: {}", side.own(), alert_sentence(side, *alert)),
        Tls::InvalidMessage(_) | Tls::InappropriateMessage { .. } => match side {
            Side::Client => "what listens there does not speak TLS: ask the port that `weir node --listen` names there".into(),
            Side::Etcd => "what listens there does not speak TLS: give the address at which etcd serves clients, or write http:// if it has no TLS".into(),
            Side::Node => "it does not speak TLS: clients of the network ask by https".into(),
        },
        Tls::PeerIncompatible(_) => "it does not speak TLS 1.3".into(),
        Tls::PeerMisbehaved(_) | Tls::DecryptError => "it breaks the protocol of TLS, or what it sent was changed on its way".into(),
        _ => "TLS failed".into(),
    }
}

fn certificate_sentence(side: Side, why: &CertificateError) -> String {
    use CertificateError as Why;
    match why {
        Why::Expired | Why::ExpiredContext { .. } => {
            "its certificate has expired: renew it, if the clocks of both hosts are right".into()
        }
        Why::NotValidYet | Why::NotValidYetContext { .. } => {
            "its certificate is not valid yet: compare the clocks of both hosts".into()
        }
        Why::UnknownIssuer | Why::BadSignature => {
            format!("its certificate is not signed by {}", side.authority())
        }
        Why::NotValidForName | Why::NotValidForNameContext { .. } => {
            "its certificate does not name the host that was asked: ask it by a name in its certificate, or have one made with this name".into()
        }
        Why::InvalidPurpose | Why::InvalidPurposeContext { .. } => {
            "its certificate is not for this use (extended key usage)".into()
        }
        Why::Revoked => "its certificate was revoked".into(),
        _ => "its certificate cannot be used: it is damaged, or of an unknown kind".into(),
    }
}

/// Why the other side ended the connection, by the alert that it sent (RFC 8446, 6.2).
fn alert_sentence(side: Side, alert: AlertDescription) -> &'static str {
    use AlertDescription as Alert;
    match (alert, side) {
        (Alert::CertificateRequired, _) => "it wants one, and none was shown",
        (Alert::CertificateExpired, _) => "it has expired",
        (Alert::CertificateRevoked, _) => "it was revoked",
        (_, Side::Client) => {
            "its authority has to be that of the node's `--tls-client-ca`, and it has to be valid now"
        }
        (_, Side::Etcd) => {
            "its authority has to be that of etcd's `--trusted-ca-file`, and it has to be valid now"
        }
        (_, Side::Node) => {
            "its authority has to be that of the client's `--ca`, it has to name the host that was asked, and to be valid now"
        }
    }
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
