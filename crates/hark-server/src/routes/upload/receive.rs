//! Streams an upload into the store; the limit of the plan is enforced as bytes arrive.

use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use hark_api::{ApiError, ErrorKind};
use hark_store::{Plan, Upload};

use crate::app::App;
use crate::config::Config;
use crate::error::Failure;
use crate::idempotent;
use crate::middleware::Caller;
use crate::multipart::Multipart;
use crate::routes::audio::refuse_second;
use crate::storage::StorageRoom;

/// Maximum bytes of a form beside the file.
const FORM_OVERHEAD: u64 = 1 << 20;
/// Maximum characters of a title taken from a file name.
const MAX_TITLE: usize = 200;

/// The text fields of a form with a recording, validated as they arrive, so that an error is reported before the upload ends.
pub(crate) trait FormFields: Default + Send {
    /// The maximum bytes of a field's value; `None` for unknown fields.
    fn longest(name: &str) -> Option<usize>;

    /// Sets one field.
    fn set(&mut self, name: &str, value: String, config: &Config) -> Result<(), Failure>;
}

/// A received form: its fields, and its file, which is not finished yet.
pub(crate) struct Incoming<F> {
    pub(crate) fields: F,
    pub(crate) upload: Upload,
    /// The base name of the file.
    pub(crate) title: String,
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
        } else if let Some(longest) = F::longest(&part.name) {
            let value = form.text(&part.name, longest).await?;
            fields.set(&part.name, value, &app.config)?;
        }
    }
    app.metrics.uploads.fetch_add(1, Ordering::Relaxed);
    let Some((upload, title)) = file.filter(|(upload, _)| upload.size() > 0) else {
        return Err(Failure::invalid("`file` is missing: send the recording as the form field `file`"));
    };
    Ok(Incoming { fields, upload, title })
}

fn announced(headers: &HeaderMap) -> Option<u64> {
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

fn too_large(plan: Plan) -> Failure {
    let megabytes = plan.max_upload() / 1_000_000;
    let message = format!("the file is larger than the {megabytes} MB that this plan allows");
    ApiError::new(ErrorKind::FileTooLarge, message).upgrade(!plan.is_paid()).into()
}

/// The base name of a file, without control characters.
fn title(file_name: &str) -> String {
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
