//! `hark openapi`: the OpenAPI document of the service.

use crate::{CliError, output};

/// Prints the document, the same for the same program: `web/openapi.json` is this output.
pub(crate) fn run() -> Result<(), CliError> {
    let document = hark_server::document().to_pretty_json();
    let document = document.map_err(|error| CliError::Failed(format!("the document can't be written: {error}")))?;
    output::print(document + "\n")
}
