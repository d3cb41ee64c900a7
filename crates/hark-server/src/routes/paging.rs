//! Lists that are answered page by page.

use serde::Deserialize;
use utoipa::IntoParams;

use crate::error::Failure;

/// The parameters of a list that has no others.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// Which page, from 1.
    #[serde(default = "first_page")]
    #[param(minimum = 1, default = 1)]
    pub(super) page: i64,
    /// Entries a page.
    #[serde(default = "page_size")]
    #[param(minimum = 1, maximum = 100, default = 20)]
    pub(super) per_page: i64,
}

/// The page that is shown where none is named.
pub(super) fn first_page() -> i64 {
    1
}

/// Entries a page where no number is named.
pub(super) fn page_size() -> i64 {
    20
}

/// Rejects pages that can't exist.
pub(super) fn check_page(page: i64, per_page: i64) -> Result<(), Failure> {
    if page < 1 || !(1..=100).contains(&per_page) {
        return Err(Failure::invalid("`page` begins with 1, `per_page` is a number from 1 to 100"));
    }
    Ok(())
}
