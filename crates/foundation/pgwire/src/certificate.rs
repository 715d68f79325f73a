//! What libpq looks at in a server's certificate and rustls does not tell:
//! the hash for channel binding, the names including the common name, and
//! trust in certificates that webpki does not accept as a server's own
//! (self-signed authorities and X.509 version 1, as the PostgreSQL manual's
//! own recipe makes them).

use rustls::pki_types::{SignatureVerificationAlgorithm, UnixTime};
use std::net::IpAddr;
use x509_cert::Version;
use x509_cert::der::asn1::{ObjectIdentifier, OctetString};
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{BasicConstraints, ExtendedKeyUsage, KeyUsage, SubjectAltName};

/// A parsed certificate.
pub(super) struct Certificate {
    der: Vec<u8>,
    parsed: x509_cert::Certificate,
}

/// Attribute type commonName (RFC 5280, appendix A).
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// Extended key usage serverAuth (RFC 5280, 4.2.1.12).
const SERVER_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1");

/// Signature algorithms that hash with SHA-384 and SHA-512: RSA (RFC 8017) and
/// ECDSA (RFC 5758).
const WITH_SHA384: [&str; 2] = ["1.2.840.113549.1.1.12", "1.2.840.10045.4.3.3"];
const WITH_SHA512: [&str; 2] = ["1.2.840.113549.1.1.13", "1.2.840.10045.4.3.4"];

impl Certificate {
    pub fn parse(der: &[u8]) -> Option<Certificate> {
        let parsed = x509_cert::Certificate::from_der(der).ok()?;
        Some(Certificate {
            der: der.to_vec(),
            parsed,
        })
    }

    /// The channel binding `tls-server-end-point` (RFC 5929, 4.1): the
    /// certificate hashed with the hash of its own signature, or with SHA-256
    /// where that is MD5 or SHA-1. `None` where the algorithm names no hash
    /// that we know (Ed25519), as libpq does.
    pub fn end_point_binding(&self) -> Option<Vec<u8>> {
        let signature = &self.parsed.signature_algorithm.oid.to_string();
        let known_by_prefix = |prefix: &str| signature.starts_with(prefix);
        let hash = if WITH_SHA384.contains(&signature.as_str()) {
            &ring::digest::SHA384
        } else if WITH_SHA512.contains(&signature.as_str()) {
            &ring::digest::SHA512
        } else if known_by_prefix("1.2.840.113549.1.1.") || known_by_prefix("1.2.840.10045.4.") {
            &ring::digest::SHA256
        } else {
            return None;
        };
        Some(ring::digest::digest(hash, &self.der).as_ref().to_vec())
    }

    /// Whether it is in the form that webpki takes for a server's own: version
    /// 3 and no authority.
    pub fn is_ordinary(&self) -> bool {
        self.parsed.tbs_certificate.version == Version::V3 && self.is_authority() != Some(true)
    }

    /// The basic constraint, where it has one.
    fn is_authority(&self) -> Option<bool> {
        let constraints = self.parsed.tbs_certificate.get::<BasicConstraints>().ok()?;
        constraints.map(|(_, constraints)| constraints.ca)
    }

    /// The public key as the DER of its SubjectPublicKeyInfo.
    pub fn public_key_info(&self) -> Option<Vec<u8>> {
        self.parsed
            .tbs_certificate
            .subject_public_key_info
            .to_der()
            .ok()
    }

    /// Verifies a signature made with this certificate's key; the first
    /// algorithm that fits the key decides.
    pub fn verify_signature(
        &self,
        algorithms: &[&dyn SignatureVerificationAlgorithm],
        message: &[u8],
        signature: &[u8],
    ) -> bool {
        let key = &self.parsed.tbs_certificate.subject_public_key_info;
        let Some(key_algorithm) = inner_der(&key.algorithm) else {
            return false;
        };
        let Some(key_bits) = key.subject_public_key.as_bytes() else {
            return false;
        };
        algorithms
            .iter()
            .filter(|algorithm| algorithm.public_key_alg_id().as_ref() == key_algorithm)
            .any(|algorithm| {
                algorithm
                    .verify_signature(key_bits, message, signature)
                    .is_ok()
            })
    }

    /// Whether this certificate, refused by webpki for its form only, is
    /// trusted through one of the authorities: it is one of them, or one of
    /// them signed it. Nothing but form is forgiven: dates, key usage,
    /// critical extensions and the signature count.
    pub fn trusted_directly(
        &self,
        authorities: &[Certificate],
        algorithms: &[&dyn SignatureVerificationAlgorithm],
        now: UnixTime,
    ) -> Result<(), &'static str> {
        if !self.is_valid_at(now) {
            return Err("it has expired or is not valid yet");
        }
        if !self.is_usable_by_a_server() {
            return Err("it is not meant for servers, or has extensions that are not understood");
        }
        if authorities
            .iter()
            .any(|authority| authority.der == self.der)
        {
            return Ok(());
        }
        let issuers = authorities.iter().filter(|authority| {
            authority.parsed.tbs_certificate.subject == self.parsed.tbs_certificate.issuer
                && authority.may_sign_certificates()
                && authority.is_valid_at(now)
        });
        for issuer in issuers {
            if self.is_signed_by(issuer, algorithms) {
                return Ok(());
            }
        }
        Err("no trusted authority has signed it")
    }

    fn is_signed_by(
        &self,
        issuer: &Certificate,
        algorithms: &[&dyn SignatureVerificationAlgorithm],
    ) -> bool {
        let parsed = &self.parsed;
        if parsed.signature_algorithm != parsed.tbs_certificate.signature {
            return false;
        }
        let (Some(used), Ok(signed), Some(signature)) = (
            inner_der(&parsed.signature_algorithm),
            parsed.tbs_certificate.to_der(),
            parsed.signature.as_bytes(),
        ) else {
            return false;
        };
        let fitting: Vec<_> = algorithms
            .iter()
            .copied()
            .filter(|algorithm| algorithm.signature_alg_id().as_ref() == used)
            .collect();
        issuer.verify_signature(&fitting, &signed, signature)
    }

    fn is_valid_at(&self, now: UnixTime) -> bool {
        let validity = &self.parsed.tbs_certificate.validity;
        let seconds = now.as_secs();
        validity.not_before.to_unix_duration().as_secs() <= seconds
            && seconds <= validity.not_after.to_unix_duration().as_secs()
    }

    /// A version 1 root has no basic constraints; being configured as a root
    /// makes it an authority, as for OpenSSL.
    fn may_sign_certificates(&self) -> bool {
        let allowed = match self.parsed.tbs_certificate.get::<KeyUsage>() {
            Ok(usage) => usage.is_none_or(|(_, usage)| usage.key_cert_sign()),
            Err(_) => false,
        };
        allowed
            && self
                .is_authority()
                .unwrap_or(self.parsed.tbs_certificate.version == Version::V1)
    }

    fn is_usable_by_a_server(&self) -> bool {
        let certificate = &self.parsed.tbs_certificate;
        let for_servers = match certificate.get::<ExtendedKeyUsage>() {
            Ok(usage) => usage.is_none_or(|(_, usage)| usage.0.contains(&SERVER_AUTH)),
            Err(_) => false,
        };
        // Basic constraints, key usage, alternative names, extended key usage.
        let understood = ["2.5.29.19", "2.5.29.15", "2.5.29.17", "2.5.29.37"];
        let extensions = certificate.extensions.as_deref().unwrap_or_default();
        for_servers
            && extensions.iter().all(|extension| {
                !extension.critical || understood.contains(&extension.extn_id.to_string().as_str())
            })
    }

    /// Whether it was issued for that host, by libpq's rules (manual, "Client
    /// Verification of Server Certificates"): names against DNS names, or
    /// against the common name where there is no DNS name; addresses against
    /// IP and DNS names, or the common name where there is no IP name.
    pub fn is_for(&self, host: &str) -> bool {
        let (dns, addresses) = self.alternative_names();
        let common = || {
            self.common_name()
                .is_some_and(|name| name_matches(&name, host))
        };
        match host.parse::<IpAddr>() {
            Ok(address) => {
                addresses.contains(&address)
                    || dns.iter().any(|name| name.eq_ignore_ascii_case(host))
                    || (addresses.is_empty() && common())
            }
            Err(_) => {
                dns.iter().any(|name| name_matches(name, host)) || (dns.is_empty() && common())
            }
        }
    }

    /// All names that it was issued for, for a message.
    pub fn names(&self) -> String {
        let (dns, addresses) = self.alternative_names();
        let addresses = addresses.iter().map(ToString::to_string);
        let mut names: Vec<String> = dns.into_iter().chain(addresses).collect();
        if names.is_empty() {
            names.extend(self.common_name());
        }
        if names.is_empty() {
            "no name at all".to_owned()
        } else {
            names.join(", ")
        }
    }

    fn alternative_names(&self) -> (Vec<String>, Vec<IpAddr>) {
        let (mut dns, mut addresses) = (Vec::new(), Vec::new());
        if let Ok(Some((_, names))) = self.parsed.tbs_certificate.get::<SubjectAltName>() {
            for name in &names.0 {
                match name {
                    GeneralName::DnsName(name) => dns.push(name.as_str().to_owned()),
                    GeneralName::IpAddress(bytes) => addresses.extend(address(bytes)),
                    _ => {}
                }
            }
        }
        (dns, addresses)
    }

    fn common_name(&self) -> Option<String> {
        let subject = &self.parsed.tbs_certificate.subject;
        let mut attributes = subject.0.iter().flat_map(|part| part.0.iter());
        let name = attributes.find(|attribute| attribute.oid == COMMON_NAME)?;
        let name = std::str::from_utf8(name.value.value()).ok()?;
        // A NUL in a name has been used to make "bank.example\0.evil.example"
        // look like another.
        (!name.contains('\0')).then(|| name.to_owned())
    }
}

/// The content of an AlgorithmIdentifier without its outer SEQUENCE header, as
/// rustls's algorithms name themselves.
fn inner_der(algorithm: &x509_cert::spki::AlgorithmIdentifierOwned) -> Option<Vec<u8>> {
    let mut der = algorithm.oid.to_der().ok()?;
    if let Some(parameters) = &algorithm.parameters {
        der.extend(parameters.to_der().ok()?);
    }
    Some(der)
}

fn address(bytes: &OctetString) -> Option<IpAddr> {
    match *bytes.as_bytes() {
        [a, b, c, d] => Some(IpAddr::from([a, b, c, d])),
        ref sixteen => <[u8; 16]>::try_from(sixteen).ok().map(IpAddr::from),
    }
}

/// libpq's wildcard: a leading `*.` stands for one label, which may not be
/// empty; everything else is compared without regard to case.
fn name_matches(pattern: &str, host: &str) -> bool {
    if pattern.eq_ignore_ascii_case(host) {
        return true;
    }
    let (Some(suffix), Some((label, rest))) = (pattern.strip_prefix("*."), host.split_once('.'))
    else {
        return false;
    };
    !label.is_empty() && !suffix.is_empty() && suffix.eq_ignore_ascii_case(rest)
}

#[cfg(test)]
mod tests {
    use super::name_matches;

    #[test]
    fn wildcards_stand_for_one_label() {
        assert!(name_matches("db.example.com", "DB.example.com"));
        assert!(name_matches("*.example.com", "db.example.com"));
        assert!(!name_matches("*.example.com", "a.db.example.com"));
        assert!(!name_matches("*.example.com", "example.com"));
        assert!(!name_matches("*.example.com", ".example.com"));
        assert!(!name_matches("d*.example.com", "db.example.com"));
        assert!(!name_matches("*", "localhost"));
    }
}
