//! Streams an upload into the store; the limit of the plan is enforced as bytes arrive.

use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use hark_api::{ApiError, ErrorKind};
use hark_store::{NamedUpload, OpenUpload, Plan, Upload, UploadId};

use crate::app::App;
use crate::config::Config;
use crate::error::Failure;
use crate::idempotent;
use crate::middleware::Caller;
use crate::multipart::Multipart;
use crate::recording::Unclaimed;
use crate::routes::audio::refuse_second;
use crate::storage::StorageRoom;

/// Maximum bytes of a form beside the file.
const FORM_OVERHEAD: u64 = 1 << 20;
/// Maximum bytes of the number of an upload.
const LONGEST_ID: usize = 40;
/// Maximum characters of a title taken from a file name.
const MAX_TITLE: usize = 200;

/// The text fields of a form with a recording, validated as they arrive, so that an error is reported before the upload ends.
pub(crate) trait FormFields: Default + Send {
    /// The maximum bytes of a field's value; `None` for unknown fields.
    fn longest(name: &str) -> Option<usize>;

    /// Whether the field `upload` may name an upload instead of a file.
    const TAKES_UPLOADS: bool = false;

    /// Sets one field.
    fn set(&mut self, name: &str, value: String, config: &Config) -> Result<(), Failure>;
}

/// A received form: its fields and its recording.
pub(crate) struct Incoming<F> {
    pub(crate) fields: F,
    pub(crate) recording: Sent,
    /// The base name of the file.
    pub(crate) title: String,
}

/// How a form has its recording.
pub(crate) enum Sent {
    /// As a file, which is not finished yet.
    File(Upload),
    /// As an upload that is complete.
    Joined(Unclaimed),
    /// As an upload that an earlier request used: its hash.
    Used([u8; 32]),
}

impl Sent {
    /// Makes the recording durable, and gives its hash where it is known. No recording is left of an upload that an earlier request used: this one can only
    /// repeat it.
    pub(crate) async fn finish(self, app: &App) -> Result<(Option<Unclaimed>, Option<[u8; 32]>), Failure> {
        let recording = match self {
            Sent::File(upload) => Unclaimed::new(&app.store, upload.finish().await?),
            Sent::Joined(recording) => recording,
            Sent::Used(hash) => return Ok((None, Some(hash))),
        };
        let hash = recording.blob.sha256;
        Ok((Some(recording), hash))
    }
}

/// The error for an upload that an earlier request used and this one does not repeat.
pub(crate) fn used_already() -> Failure {
    Failure::new(ErrorKind::Conflict, "the upload was used already: begin another one")
}

/// Reads the form and stores its file.
pub(crate) async fn receive<F: FormFields>(
    app: &App,
    caller: &Caller,
    headers: &HeaderMap,
    body: Body,
) -> Result<Incoming<F>, Failure> {
    let plan = caller.plan();
    let mut form = Multipart::open(headers, body, app.config.idle_timeout.duration()).await?;
    refuse_announced(headers, plan)?;
    // Only a request that may be repeated is compared with its repeats.
    let is_named = idempotent::key(headers)?.is_some();
    // A repeat needs no storage of its own; the store detects it when it accepts the job.
    let room = if is_named { None } else { StorageRoom::of(app, caller).await? };
    if let Some(room) = &room {
        room.check(announced(headers).unwrap_or(0).saturating_sub(FORM_OVERHEAD).max(1))?;
    }
    let mut fields = F::default();
    let mut file: Option<(Upload, String)> = None;
    let mut named: Option<UploadId> = None;
    while let Some(part) = form.next_part().await? {
        if part.name == "file" {
            refuse_second(file.is_some(), "file")?;
            let mut upload = app.store.recordings().upload(caller.account(app)).await?;
            // The stored checksum of a plaintext recording needs its hash; the chunks of a sealed one are authenticated.
            if !is_named && upload.is_sealed() {
                upload = upload.without_hash();
            }
            store_file(app, &mut form, &mut upload, plan, room.as_ref()).await?;
            file = Some((upload, title(part.file_name.as_deref().unwrap_or_default())));
        } else if F::TAKES_UPLOADS && part.name == "upload" {
            refuse_second(named.is_some(), "upload")?;
            let value = form.text(&part.name, LONGEST_ID).await?;
            let id = value.trim().parse().map_err(|_| Failure::invalid("`upload` is the number of an upload"))?;
            named = Some(UploadId(id));
        } else if let Some(longest) = F::longest(&part.name) {
            let value = form.text(&part.name, longest).await?;
            fields.set(&part.name, value, &app.config)?;
        }
    }
    app.metrics.uploads.fetch_add(1, Ordering::Relaxed);
    if let Some(id) = named {
        if file.is_some() {
            return Err(Failure::invalid("`file` and `upload` exclude each other: send one of them"));
        }
        let (recording, title) = joined(app, caller, id, is_named).await?;
        return Ok(Incoming { fields, recording, title });
    }
    let Some((upload, title)) = file.filter(|(upload, _)| upload.size() > 0) else {
        return Err(Failure::invalid("`file` is missing: send the recording as the form field `file`"));
    };
    Ok(Incoming { fields, recording: Sent::File(upload), title })
}

/// The recording of an upload, and its title. The upload stays until a job is accepted.
async fn joined(app: &App, caller: &Caller, id: UploadId, is_named: bool) -> Result<(Sent, String), Failure> {
    let Some(identity) = caller.identity() else {
        let message = "`upload` needs an account, whose uploads it names: send an API key";
        return Err(Failure::new(ErrorKind::Unauthorized, message));
    };
    let account = identity.account();
    match app.store.uploads().find(account, id).await? {
        NamedUpload::Used { .. } if !is_named => Err(used_already()),
        NamedUpload::Used { sha256 } => Ok((Sent::Used(sha256), String::new())),
        NamedUpload::Open(upload) if !upload.is_complete() => {
            let OpenUpload { received, size, .. } = upload;
            let message = format!("the upload is not complete: {received} of its {size} bytes are there");
            Err(Failure::invalid(message))
        }
        NamedUpload::Open(upload) if upload.size > caller.plan().max_upload() => Err(too_large(caller.plan())),
        NamedUpload::Open(upload) => {
            let blob = app.store.uploads().join(account, &upload, is_named).await?;
            Ok((Sent::Joined(Unclaimed::new(&app.store, blob)), upload.name))
        }
    }
}

/// The length of a body, where it is announced.
pub(crate) fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok())
}

/// Rejects a form whose `Content-Length` exceeds the plan's limit, before it is read.
pub(crate) fn refuse_announced(headers: &HeaderMap, plan: Plan) -> Result<(), Failure> {
    if announced(headers).is_some_and(|bytes| bytes > plan.max_upload() + FORM_OVERHEAD) {
        return Err(too_large(plan));
    }
    Ok(())
}

/// Stores the file of the form, within the plan's limit and the account's storage.
pub(crate) async fn store_file(
    app: &App,
    form: &mut Multipart,
    upload: &mut Upload,
    plan: Plan,
    room: Option<&StorageRoom>,
) -> Result<(), Failure> {
    while let Some(block) = form.chunk().await? {
        if upload.size() + block.len() as u64 > plan.max_upload() {
            return Err(too_large(plan));
        }
        if let Some(room) = room {
            room.check(upload.size() + block.len() as u64)?;
        }
        app.metrics.upload_bytes.fetch_add(block.len() as u64, Ordering::Relaxed);
        upload.write(block).await?;
    }
    Ok(())
}

/// The error for a recording that is larger than the plan allows.
pub(crate) fn too_large(plan: Plan) -> Failure {
    let megabytes = plan.max_upload() / 1_000_000;
    let message = format!("the file is larger than the {megabytes} MB that this plan allows");
    ApiError::new(ErrorKind::FileTooLarge, message).upgrade(!plan.is_paid()).into()
}

/// The base name of a file, without control characters.
pub(crate) fn title(file_name: &str) -> String {
    let name = file_name.rsplit(['/', '\\']).next().unwrap_or_default();
    let name: String = name.chars().filter(|character| !character.is_control()).take(MAX_TITLE).collect();
    let name = name.trim();
    if name.is_empty() { "Untitled".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_name_of_the_file_without_its_folders() {
        assert_eq!(title("C:\\Users\\me\\talk.mp3"), "talk.mp3");
        assert_eq!(title("../../etc/α β.wav"), "α β.wav");
        assert_eq!(title("a\u{0}b\r\n"), "ab");
        assert_eq!(title(""), "Untitled");
        assert_eq!(title("folder/"), "Untitled");
    }
}
