//! Verification of the server's certificate as libpq's sslmode means it.

use super::certificate::Certificate;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
    verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use std::sync::Arc;

/// Which authorities are trusted.
pub(super) struct Trust {
    /// Chains as webpki builds them, with revocation where lists are given.
    pub chains: Arc<WebPkiServerVerifier>,
    /// The same authorities, for certificates whose form webpki refuses.
    pub authorities: Vec<Certificate>,
    /// Revocation lists are given: then only webpki's verdict counts.
    pub revocation: bool,
}

/// The verifier of one server's certificate.
pub(super) struct Verifier {
    /// `None` accepts every certificate.
    pub trust: Option<Arc<Trust>>,
    /// The name it must be issued for, in verify-full.
    pub host: Option<String>,
    pub algorithms: WebPkiSupportedAlgorithms,
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Verifier(trust: {}, host: {:?})",
            self.trust.is_some(),
            self.host
        )
    }
}

impl Verifier {
    pub fn new(
        trust: Option<Arc<Trust>>,
        host: Option<String>,
        provider: &CryptoProvider,
    ) -> Verifier {
        Verifier {
            trust,
            host,
            algorithms: provider.signature_verification_algorithms,
        }
    }

    fn check_chain(
        &self,
        trust: &Trust,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<(), Error> {
        let verdict =
            trust
                .chains
                .verify_server_cert(end_entity, intermediates, server_name, ocsp, now);
        let error = match verdict {
            Ok(_) => return Ok(()),
            // The name is looked at last, so the chain is good; names are ours.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => return Ok(()),
            Err(error) => error,
        };
        match Certificate::parse(end_entity) {
            Some(certificate) if !trust.revocation && !certificate.is_ordinary() => certificate
                .trusted_directly(&trust.authorities, self.algorithms.all, now)
                .map_err(|why| Error::General(why.to_owned())),
            _ => Err(error),
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(trust) = &self.trust {
            self.check_chain(trust, end_entity, intermediates, server_name, ocsp, now)?;
        }
        if let Some(host) = &self.host {
            let Some(certificate) = Certificate::parse(end_entity) else {
                return Err(CertificateError::BadEncoding.into());
            };
            if !certificate.is_for(host) {
                return Err(Error::General(format!(
                    "it is for {}, not for \"{host}\"; connect under a name that it \
                     has, or use sslmode=verify-ca if the name does not matter",
                    certificate.names()
                )));
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match Certificate::parse(cert) {
            Some(certificate) if !certificate.is_ordinary() => {
                let listed = self.algorithms.mapping.iter();
                let fitting = listed.filter(|(scheme, _)| *scheme == dss.scheme);
                for (_, algorithms) in fitting {
                    if certificate.verify_signature(algorithms, message, dss.signature()) {
                        return Ok(HandshakeSignatureValid::assertion());
                    }
                }
                Err(CertificateError::BadSignature.into())
            }
            _ => verify_tls12_signature(message, cert, dss, &self.algorithms),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = Certificate::parse(cert)
            .filter(|certificate| !certificate.is_ordinary())
            .and_then(|certificate| certificate.public_key_info());
        match key {
            Some(key) => {
                let key = SubjectPublicKeyInfoDer::from(key);
                verify_tls13_signature_with_raw_key(message, &key, dss, &self.algorithms)
            }
            None => verify_tls13_signature(message, cert, dss, &self.algorithms),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
