//! Tokens of texts as an endpoint's model estimates them, against real tokenizers.

use std::path::{Path, PathBuf};

use hark_compute::{Compute, Isa};
use hark_lm::Model;
use hark_text::{Endpoint, EndpointSettings, LanguageModel as _};

/// Scripts and forms that the transcripts of `bench/text` do not have.
const TEXTS: [&str; 10] = [
    "今天的会议讨论了柏林办事处的发票，金额为四千二百欧元，星期五到期。",
    "本日の会議ではベルリン事務所の請求書について話し合いました。",
    "오늘 회의에서 베를린 사무소의 청구서에 대해 논의했습니다.",
    "Сегодня на совещании обсуждали счёт берлинского офиса на 4200 евро.",
    "ناقش الاجتماع اليوم فاتورة مكتب برلين البالغة ٤٢٠٠ يورو.",
    "आज की बैठक में बर्लिन कार्यालय के बिल पर चर्चा हुई।",
    "https://example.com/a/b?c=d&e=%20f#g 192.168.100.200 2026-11-18T11:50:23Z 4111 1111 1111 1111",
    "fn main() {\n    let x: Vec<Option<u8>> = vec![None; 3]; // ???\n    println!(\"{x:?}\");\n}\n",
    "🎉🎉 👩‍👩‍👧 naïve Ångström ﬁ ½ ™ … — “quoted”",
    "xkcd qwrtzp HTTP NASA GmbH zzzz AbCdEf jQuery",
];

fn models() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("HARK_MODELS").unwrap_or_else(|| {
        let cache = set("XDG_CACHE_HOME").or_else(|| Some(std::env::home_dir()?.join(".cache")));
        cache.expect("a home folder").join("hark/models")
    })
}

#[tokio::test]
#[ignore = "needs models"]
async fn estimates_are_never_below_what_tokenizers_count() {
    let settings = EndpointSettings {
        model: Some("m".into()),
        context: Some(8192),
        ..EndpointSettings::new("http://127.0.0.1:9")
    };
    let endpoint = Endpoint::new(settings).unwrap().model().await.unwrap();
    let mut texts: Vec<String> = TEXTS.iter().map(|text| (*text).to_owned()).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/text");
    let files = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    let transcripts = files.filter(|path| path.extension().is_some_and(|extension| extension == "txt"));
    texts.extend(transcripts.map(|path| std::fs::read_to_string(path).unwrap()));
    assert!(texts.len() > TEXTS.len() + 3);
    // The tests' own model has a small vocabulary, so many tokens. What else is installed is asked, too.
    let own = "smollm2-135m-instruct".to_owned();
    let installed = std::fs::read_dir(models()).unwrap().flatten();
    let others = installed.filter(|entry| entry.path().join("model.gguf").is_file());
    let others = others.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| *name != own);
    for name in std::iter::once(own.clone()).chain(others) {
        let file = models().join(&name).join("model.gguf");
        let model = Model::load(&Compute::new(1, Isa::best()), &file).expect("the model loads");
        for text in &texts {
            let (real, estimate) = (model.tokenizer().encode(text).len(), endpoint.count_tokens(text));
            let start: String = text.chars().take(30).collect();
            assert!(estimate >= real, "{name}: {real} tokens, {estimate} estimated, in {start}");
        }
    }
}
