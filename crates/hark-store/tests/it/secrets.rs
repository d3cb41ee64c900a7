use std::time::Duration;

use crate::support::{START, on_both};

on_both! {
    async fn a_secret_is_the_same_for_everybody_and_for_each_name_another(place: Place) {
        let (one, two) = (place.open().await, place.open().await);
        let (first, second) = tokio::join!(one.secret("a", None), two.secret("a", None));
        let first = first.unwrap();
        assert_eq!(first, second.unwrap());
        assert_eq!(first, place.open().await.secret("a", None).await.unwrap());
        assert_ne!(first, one.secret("b", None).await.unwrap());
        assert_ne!(*first, [0; 32]);
    }

    async fn a_secret_that_ended_is_gone_and_a_new_one_takes_its_name(place: Place) {
        let store = place.open().await;
        let until = Some(START + 60_000_000);
        let before = store.secret("day", until).await.unwrap();
        place.clock.advance(Duration::from_secs(59));
        assert_eq!(before, store.secret("day", until).await.unwrap());
        place.clock.advance(Duration::from_secs(1));
        assert_ne!(before, store.secret("day", Some(START + 120_000_000)).await.unwrap());
        assert!(store.secret("late", until).await.is_err(), "it would have ended before it began");
    }

    async fn a_sealed_secret_opens_only_with_the_master_key(place: Place) {
        let sealed = place.open_sealed([7; 32]).await;
        let secret = sealed.secret("a", None).await.unwrap();
        assert_eq!(secret, place.open_sealed([7; 32]).await.secret("a", None).await.unwrap());
        assert!(place.open_sealed([8; 32]).await.secret("a", None).await.is_err());
    }
}
