//! Where tests find installed models.

use std::path::PathBuf;

/// The folder of an installed model; a test without it fails and says what to do.
pub fn folder(model: &str) -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let models = set("HARK_MODELS")
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("hark/models")))
        .or_else(|| Some(set("HOME")?.join(".cache/hark/models")))
        .expect("HARK_MODELS or HOME says where models are");
    let folder = models.join(model);
    assert!(
        folder.is_dir(),
        "{model} is not installed in {}: run `./hark test`, which installs what the tests need",
        models.display()
    );
    folder
}
