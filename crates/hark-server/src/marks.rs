//! The watermark of this installation.

use std::sync::{Arc, Mutex, PoisonError};

use hark_api::ErrorKind;
use hark_voice::{Key, Marker};

use crate::config::Config;
use crate::error::Failure;

/// The marker, whose key is read at first use; a key is made where there is none.
#[derive(Default)]
pub(crate) struct MarkerOnDemand(Mutex<Option<Arc<Marker>>>);

impl MarkerOnDemand {
    /// The marker; reads a small file, or makes it, once.
    pub(crate) fn get(&self, config: &Config) -> Result<Arc<Marker>, Failure> {
        let mut marker = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(marker) = &*marker {
            return Ok(Arc::clone(marker));
        }
        let Some(file) = &config.watermark_key_file else {
            let message = "this server has no watermark key: set `watermark_key_file`";
            return Err(Failure::new(ErrorKind::ModelMissing, message));
        };
        let key = Key::read_or_create_file(file).map_err(|error| {
            tracing::error!(%error, "watermark.key_failed");
            Failure::new(ErrorKind::Internal, "the watermark key of this server can't be read: its log says why")
        })?;
        Ok(Arc::clone(marker.insert(Arc::new(Marker::new(key, config.voice.issuer)))))
    }
}
