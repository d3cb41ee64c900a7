//! TLS: ring, and the certificates that the system trusts.

use std::sync::{Arc, LazyLock};

use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;

/// The settings of every client; the certificates are read once. `SSL_CERT_FILE` and a company's own authority hold.
pub(crate) fn config() -> ClientConfig {
    static CONFIG: LazyLock<ClientConfig> = LazyLock::new(|| {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("ring has the cipher suites of TLS 1.2 and 1.3");
        match Verifier::new(provider) {
            Ok(verifier) => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()
            }
            // A system without certificates, such as a minimal container, can still use plain HTTP. No TLS connection
            // succeeds, since nothing is trusted.
            Err(error) => {
                tracing::warn!(%error, "http.no_certificates");
                builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth()
            }
        }
    });
    CONFIG.clone()
}
