//! Lists the stored files by pages: there may be millions.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[cfg(feature = "object-store")]
use futures_util::{StreamExt, TryStreamExt, stream::BoxStream};

use super::local::Folder;
use super::{BlobKey, blocking};
use crate::error::Result;

/// Objects of a bucket in a page.
#[cfg(feature = "object-store")]
const PAGE: usize = 1000;

/// A stored file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredFile {
    pub(crate) key: BlobKey,
    /// Its length as stored.
    pub(crate) size: u64,
    /// Whether it is the spool file of an upload.
    pub(crate) is_partial: bool,
}

/// The remaining pages of files of a folder or bucket.
pub(crate) enum Pages {
    /// One page for each folder.
    Local { folder: Folder, left: std::vec::IntoIter<PathBuf>, before: SystemTime },
    #[cfg(feature = "object-store")]
    Remote(BoxStream<'static, Vec<Result<StoredFile>>>),
}

impl Pages {
    pub(super) fn local(folder: Folder, age: Duration) -> Result<Pages> {
        let left = folder.folders()?.into_iter();
        Ok(Pages::Local { folder, left, before: modified_before(age) })
    }

    #[cfg(feature = "object-store")]
    pub(super) fn remote(bucket: &super::remote::Bucket, age: Duration) -> Pages {
        let before = unix_micros(modified_before(age));
        Pages::Remote(bucket.list(before).into_stream().chunks(PAGE).boxed())
    }

    /// The next page, which may be empty; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<StoredFile>>> {
        match self {
            Pages::Local { folder, left, before } => {
                let Some(next) = left.next() else { return Ok(None) };
                let (folder, before) = (folder.clone(), *before);
                blocking(move || folder.list(&next, before)).await.map(Some)
            }
            #[cfg(feature = "object-store")]
            Pages::Remote(pages) => pages.next().await.map(|page| page.into_iter().collect()).transpose(),
        }
    }
}

/// The latest modification time of a file that is at least `age` old.
pub(super) fn modified_before(age: Duration) -> SystemTime {
    SystemTime::now().checked_sub(age).unwrap_or(UNIX_EPOCH)
}

/// A time in microseconds since 1970.
#[cfg(feature = "object-store")]
pub(super) fn unix_micros(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, crate::clock::micros)
}
