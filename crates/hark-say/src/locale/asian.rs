//! Hindi, Japanese (in kana) and Chinese.

use super::Locale;
use super::romance::metric;

pub(super) static HINDI: Locale = Locale {
    decimal: '.',
    point: "दशमलव",
    minus: "ऋण",
    percent: "प्रतिशत",
    to: "से",
    months: ["जनवरी", "फ़रवरी", "मार्च", "अप्रैल", "मई", "जून", "जुलाई", "अगस्त", "सितंबर", "अक्टूबर", "नवंबर", "दिसंबर"],
    space: " ",
    cardinal: hindi,
    ordinal: None,
    date: |locale, day, month, year| format!("{} {} {}", hindi(day), locale.month(month), hindi(year)),
    time: |_, hours, minutes| {
        if minutes == 0 {
            format!("{} बजे", hindi(hours))
        } else {
            format!("{} बजकर {} मिनट", hindi(hours), hindi(minutes))
        }
    },
    money: |symbol| {
        Some(match symbol {
            "₹" => ["रुपया", "रुपये", "पैसे"],
            "$" | "USD" | "US$" => ["डॉलर", "डॉलर", "सेंट"],
            "€" | "EUR" => ["यूरो", "यूरो", "सेंट"],
            "£" | "GBP" => ["पाउंड", "पाउंड", "पेंस"],
            _ => return None,
        })
    },
    and: "और",
    unit: |symbol| {
        metric(
            symbol,
            [
                "किलोमीटर",
                "मीटर",
                "सेंटीमीटर",
                "मिलीमीटर",
                "किलोग्राम",
                "ग्राम",
                "मिलीग्राम",
                "लीटर",
                "मिलीलीटर",
                "घंटे",
                "मिनट",
                "डिग्री सेल्सियस",
                "किलोमीटर प्रति घंटा",
                "मीटर प्रति सेकंड",
                "वर्ग मीटर",
            ],
        )
    },
    in_context: None,
    agree: None,
};

/// Numbers below a hundred, each with a name of its own.
const HINDI_SMALL: [&str; 100] = [
    "शून्य",
    "एक",
    "दो",
    "तीन",
    "चार",
    "पाँच",
    "छह",
    "सात",
    "आठ",
    "नौ",
    "दस",
    "ग्यारह",
    "बारह",
    "तेरह",
    "चौदह",
    "पंद्रह",
    "सोलह",
    "सत्रह",
    "अठारह",
    "उन्नीस",
    "बीस",
    "इक्कीस",
    "बाईस",
    "तेईस",
    "चौबीस",
    "पच्चीस",
    "छब्बीस",
    "सत्ताईस",
    "अट्ठाईस",
    "उनतीस",
    "तीस",
    "इकतीस",
    "बत्तीस",
    "तैंतीस",
    "चौंतीस",
    "पैंतीस",
    "छत्तीस",
    "सैंतीस",
    "अड़तीस",
    "उनतालीस",
    "चालीस",
    "इकतालीस",
    "बयालीस",
    "तैंतालीस",
    "चवालीस",
    "पैंतालीस",
    "छियालीस",
    "सैंतालीस",
    "अड़तालीस",
    "उनचास",
    "पचास",
    "इक्यावन",
    "बावन",
    "तिरपन",
    "चौवन",
    "पचपन",
    "छप्पन",
    "सत्तावन",
    "अट्ठावन",
    "उनसठ",
    "साठ",
    "इकसठ",
    "बासठ",
    "तिरसठ",
    "चौंसठ",
    "पैंसठ",
    "छियासठ",
    "सड़सठ",
    "अड़सठ",
    "उनहत्तर",
    "सत्तर",
    "इकहत्तर",
    "बहत्तर",
    "तिहत्तर",
    "चौहत्तर",
    "पचहत्तर",
    "छिहत्तर",
    "सतहत्तर",
    "अठहत्तर",
    "उन्यासी",
    "अस्सी",
    "इक्यासी",
    "बयासी",
    "तिरासी",
    "चौरासी",
    "पचासी",
    "छियासी",
    "सत्तासी",
    "अट्ठासी",
    "नवासी",
    "नब्बे",
    "इक्यानवे",
    "बानवे",
    "तिरानवे",
    "चौरानवे",
    "पचानवे",
    "छियानवे",
    "सत्तानवे",
    "अट्ठानवे",
    "निन्यानवे",
];

fn hindi(n: u64) -> String {
    let scaled = |unit: u64, name: &str| {
        let head = format!("{} {name}", hindi(n / unit));
        if n.is_multiple_of(unit) { head } else { format!("{head} {}", hindi(n % unit)) }
    };
    match n {
        0..100 => HINDI_SMALL[n as usize].to_owned(),
        100..1_000 => scaled(100, "सौ"),
        1_000..100_000 => scaled(1_000, "हज़ार"),
        100_000..10_000_000 => scaled(100_000, "लाख"),
        10_000_000..1_000_000_000 => scaled(10_000_000, "करोड़"),
        _ => scaled(1_000_000_000, "अरब"),
    }
}

pub(super) static JAPANESE: Locale = Locale {
    decimal: '.',
    point: "てん",
    minus: "マイナス",
    percent: "パーセント",
    to: "から",
    months: [
        "いちがつ",
        "にがつ",
        "さんがつ",
        "しがつ",
        "ごがつ",
        "ろくがつ",
        "しちがつ",
        "はちがつ",
        "くがつ",
        "じゅうがつ",
        "じゅういちがつ",
        "じゅうにがつ",
    ],
    space: "",
    cardinal: japanese,
    ordinal: None,
    date: |locale, day, month, year| format!("{}ねん{}{}", japanese(year), locale.month(month), japanese_day(day)),
    time: |_, hours, minutes| {
        let hour = match hours {
            4 => "よ".to_owned(),
            7 => "しち".to_owned(),
            9 => "く".to_owned(),
            _ => japanese(hours),
        };
        if minutes == 0 { format!("{hour}じ") } else { format!("{hour}じ{}ふん", japanese(minutes)) }
    },
    money: |symbol| {
        Some(match symbol {
            "¥" | "円" => ["えん", "えん", ""],
            "$" | "USD" | "US$" => ["ドル", "ドル", "セント"],
            "€" | "EUR" => ["ユーロ", "ユーロ", "セント"],
            "£" | "GBP" => ["ポンド", "ポンド", "ペンス"],
            _ => return None,
        })
    },
    and: "",
    unit: |symbol| {
        metric(
            symbol,
            [
                "キロメートル",
                "メートル",
                "センチメートル",
                "ミリメートル",
                "キログラム",
                "グラム",
                "ミリグラム",
                "リットル",
                "ミリリットル",
                "じかん",
                "ぷん",
                "ど",
                "キロメートルまいじ",
                "メートルまいびょう",
                "へいほうメートル",
            ],
        )
    },
    in_context: None,
    agree: None,
};

/// Numbers in kana, with the sounds that change before hundreds and thousands.
fn japanese(n: u64) -> String {
    const SMALL: [&str; 11] = ["ゼロ", "いち", "に", "さん", "よん", "ご", "ろく", "なな", "はち", "きゅう", "じゅう"];
    let rest = |head: String, rest: u64| if rest == 0 { head } else { head + &japanese(rest) };
    match n {
        0..=10 => SMALL[n as usize].to_owned(),
        11..20 => format!("じゅう{}", SMALL[(n - 10) as usize]),
        20..100 => rest(format!("{}じゅう", SMALL[(n / 10) as usize]), n % 10),
        100..1000 => {
            let head = match n / 100 {
                1 => "ひゃく".to_owned(),
                3 => "さんびゃく".to_owned(),
                6 => "ろっぴゃく".to_owned(),
                8 => "はっぴゃく".to_owned(),
                hundreds => format!("{}ひゃく", SMALL[hundreds as usize]),
            };
            rest(head, n % 100)
        }
        1000..10_000 => {
            let head = match n / 1000 {
                1 => "せん".to_owned(),
                3 => "さんぜん".to_owned(),
                8 => "はっせん".to_owned(),
                thousands => format!("{}せん", SMALL[thousands as usize]),
            };
            rest(head, n % 1000)
        }
        10_000..100_000_000 => rest(format!("{}まん", japanese(n / 10_000)), n % 10_000),
        _ => rest(format!("{}おく", japanese(n / 100_000_000)), n % 100_000_000),
    }
}

fn japanese_day(day: u64) -> String {
    const SMALL: [&str; 11] =
        ["", "ついたち", "ふつか", "みっか", "よっか", "いつか", "むいか", "なのか", "ようか", "ここのか", "とおか"];
    match day {
        1..=10 => SMALL[day as usize].to_owned(),
        14 => "じゅうよっか".to_owned(),
        20 => "はつか".to_owned(),
        24 => "にじゅうよっか".to_owned(),
        _ => format!("{}にち", japanese(day)),
    }
}

pub(super) static CHINESE: Locale = Locale {
    decimal: '.',
    point: "点",
    minus: "负",
    percent: "百分之~",
    to: "到",
    months: ["一月", "二月", "三月", "四月", "五月", "六月", "七月", "八月", "九月", "十月", "十一月", "十二月"],
    space: "",
    cardinal: chinese,
    ordinal: None,
    date: |locale, day, month, year| {
        format!("{}年{}{}日", locale.each_digit(&year.to_string()), locale.month(month), chinese(day))
    },
    time: |_, hours, minutes| {
        let hour = if hours == 2 { "两".to_owned() } else { chinese(hours) };
        match minutes {
            0 => format!("{hour}点"),
            1..10 => format!("{hour}点零{}分", chinese(minutes)),
            _ => format!("{hour}点{}分", chinese(minutes)),
        }
    },
    money: |symbol| {
        Some(match symbol {
            "¥" | "元" => ["元", "元", ""],
            "$" | "USD" | "US$" => ["美元", "美元", ""],
            "€" | "EUR" => ["欧元", "欧元", ""],
            "£" | "GBP" => ["英镑", "英镑", ""],
            _ => return None,
        })
    },
    and: "",
    unit: |symbol| {
        metric(
            symbol,
            [
                "公里",
                "米",
                "厘米",
                "毫米",
                "公斤",
                "克",
                "毫克",
                "升",
                "毫升",
                "小时",
                "分钟",
                "摄氏度",
                "公里每小时",
                "米每秒",
                "平方米",
            ],
        )
    },
    in_context: None,
    agree: None,
};

fn chinese(n: u64) -> String {
    const DIGITS: [&str; 10] = ["零", "一", "二", "三", "四", "五", "六", "七", "八", "九"];
    // The rest after a unit: a zero is said where a place is empty.
    let rest = |head: String, rest: u64, unit: u64| match rest {
        0 => head,
        _ if rest < unit / 10 => format!("{head}零{}", chinese_inner(rest)),
        _ => head + &chinese_inner(rest),
    };
    match n {
        0..10 => DIGITS[n as usize].to_owned(),
        10..20 => {
            if n == 10 {
                "十".to_owned()
            } else {
                format!("十{}", DIGITS[(n - 10) as usize])
            }
        }
        20..100 => rest(format!("{}十", DIGITS[(n / 10) as usize]), n % 10, 10),
        100..1_000 => rest(format!("{}百", DIGITS[(n / 100) as usize]), n % 100, 100),
        1_000..10_000 => rest(format!("{}千", DIGITS[(n / 1_000) as usize]), n % 1_000, 1_000),
        10_000..100_000_000 => rest(format!("{}万", chinese(n / 10_000)), n % 10_000, 10_000),
        _ => rest(format!("{}亿", chinese(n / 100_000_000)), n % 100_000_000, 100_000_000),
    }
}

/// Inside a number ten is "one ten".
fn chinese_inner(n: u64) -> String {
    if (10..20).contains(&n) { format!("一{}", chinese(n)) } else { chinese(n) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn japanese_numbers_change_their_sounds() {
        for (n, kana) in [
            (0, "ゼロ"),
            (14, "じゅうよん"),
            (300, "さんびゃく"),
            (600, "ろっぴゃく"),
            (3_800, "さんぜんはっぴゃく"),
            (20_000, "にまん"),
        ] {
            assert_eq!(japanese(n), kana);
        }
    }

    #[test]
    fn chinese_numbers_say_their_empty_places() {
        for (n, hanzi) in [
            (10, "十"),
            (15, "十五"),
            (20, "二十"),
            (105, "一百零五"),
            (110, "一百一十"),
            (115, "一百一十五"),
            (1_005, "一千零五"),
            (2_026, "二千零二十六"),
            (10_000, "一万"),
            (10_500, "一万零五百"),
        ] {
            assert_eq!(chinese(n), hanzi, "{n}");
        }
    }

    #[test]
    fn hindi_counts_in_lakhs_and_crores() {
        assert_eq!((hindi(42).as_str(), hindi(150_000).as_str()), ("बयालीस", "एक लाख पचास हज़ार"));
    }
}
