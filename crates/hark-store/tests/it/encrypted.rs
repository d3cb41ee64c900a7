//! A database on another machine: encrypted, with a password, and only if the server is who it says.

use hark_store::{Options, Store};

use crate::support::account;

async fn open(address: &str, folder: &tempfile::TempDir) -> Result<Store, hark_store::Error> {
    Store::open(Options::new(address, folder.path().display().to_string())).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn postgres_is_reached_over_tls_if_its_certificate_is_vouched_for_and_not_otherwise() {
    let database = hark_postgres::new_encrypted_database().await.unwrap_or_else(|error| panic!("{error}"));
    let folder = tempfile::tempdir().unwrap();
    let authority = database.authority.display();

    let store =
        open(&format!("{}?sslmode=verify-full&sslrootcert={authority}", database.address), &folder).await.unwrap();
    let id = account(&store, 7).await;
    assert_eq!(store.accounts().get(id).await.unwrap().credits, 7);

    // Nobody vouches for the certificate here.
    let Err(unknown) = open(&format!("{}?sslmode=verify-full", database.address), &folder).await else {
        panic!("a server that nobody vouches for was trusted");
    };
    assert!(unknown.to_string().to_lowercase().contains("certificate"), "{unknown}");
    // The certificate is for localhost.
    let elsewhere = database.address.replace("@localhost:", "@127.0.0.1:");
    let wrong_name = open(&format!("{elsewhere}?sslmode=verify-full&sslrootcert={authority}"), &folder).await;
    assert!(wrong_name.is_err(), "a certificate for another name was taken");
    // The server refuses to speak in the clear, and wants the right password.
    let clear = open(&format!("{}?sslmode=disable", database.address), &folder).await;
    assert!(clear.is_err(), "the server of this test must refuse plain connections, or the test shows nothing");
    let guess = database.address.replace("swordfish", "guess");
    let Err(refused) = open(&format!("{guess}?sslmode=require"), &folder).await else { panic!("any password will do") };
    assert!(!refused.to_string().contains("guess"), "errors don't show passwords: {refused}");
}
