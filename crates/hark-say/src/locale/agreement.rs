//! Numbers before a noun: where "one" and "two" have a gender or a short form, and hundreds have a gender.
//!
//! No dictionary tells genders here: endings do for most nouns, and lists for common ones that break the rule. Where nothing tells, the masculine stands, as
//! it does when people count. What is no noun (a preposition, a verb that is in the list) leaves the number as it is.

/// A whole number in a sentence.
pub(super) struct Counted<'a> {
    /// Its words, as they are counted.
    pub(super) words: &'a str,
    pub(super) value: u64,
    /// The word before it, in lower case; empty at the start.
    pub(super) before: &'a str,
    /// The word after it.
    pub(super) after: &'a str,
}

impl Counted<'_> {
    /// Whether the next word may be what is counted: none of `others`, and a plural (in these languages with an s) unless there is one.
    fn counts(&self, others: &[&str], labels: &[&str]) -> bool {
        let label = self.before.strip_suffix('s').unwrap_or(self.before);
        !self.after.is_empty()
            && !others.contains(&self.after)
            && !labels.contains(&self.before)
            && !labels.contains(&label)
            && (self.value == 1 || self.after.ends_with('s'))
    }
}

/// The part of a number that a noun agrees with: millions are nouns themselves.
fn after_millions<'a>(words: &'a str, millions: &[&str]) -> (&'a str, &'a str) {
    let end = millions.iter().filter_map(|noun| Some(words.rfind(noun)? + noun.len())).max().unwrap_or(0);
    words.split_at(end)
}

fn with_ending(words: &str, ending: &str, other: &str) -> Option<String> {
    let head = words.strip_suffix(ending)?;
    (head.is_empty() || head.ends_with(' ')).then(|| format!("{head}{other}"))
}

/// Words between which and a number no noun is counted: "capítulo 1", "página 21".
const SPANISH_LABELS: &[&str] = &[
    "año",
    "artículo",
    "canal",
    "capítulo",
    "categoría",
    "clase",
    "día",
    "edición",
    "episodio",
    "etapa",
    "fase",
    "figura",
    "fórmula",
    "grupo",
    "habitación",
    "línea",
    "nivel",
    "número",
    "opción",
    "página",
    "parte",
    "paso",
    "punto",
    "sala",
    "sección",
    "tabla",
    "temporada",
    "tipo",
    "tomo",
    "versión",
    "volumen",
];
const SPANISH_OTHERS: &[&str] = &[
    "a",
    "al",
    "antes",
    "ante",
    "bajo",
    "como",
    "con",
    "contra",
    "cuando",
    "de",
    "del",
    "desde",
    "después",
    "durante",
    "e",
    "el",
    "ellas",
    "ellos",
    "en",
    "entonces",
    "entre",
    "era",
    "eran",
    "eres",
    "es",
    "está",
    "están",
    "estás",
    "fue",
    "fueron",
    "ha",
    "han",
    "has",
    "hasta",
    "hay",
    "jueves",
    "la",
    "las",
    "le",
    "les",
    "lo",
    "los",
    "lunes",
    "martes",
    "más",
    "me",
    "menos",
    "miércoles",
    "ni",
    "no",
    "nos",
    "nosotros",
    "o",
    "os",
    "para",
    "pero",
    "por",
    "pues",
    "que",
    "se",
    "sea",
    "según",
    "será",
    "serán",
    "si",
    "sin",
    "sobre",
    "somos",
    "son",
    "sus",
    "te",
    "tiene",
    "tienen",
    "tras",
    "tus",
    "u",
    "un",
    "una",
    "unas",
    "unos",
    "va",
    "van",
    "vamos",
    "viernes",
    "y",
    "ya",
];

/// Spanish: 21 libros is "veintiún libros", 21 horas "veintiuna horas", 200 personas "doscientas personas".
pub(super) fn spanish(counted: &Counted) -> Option<String> {
    if !counted.counts(SPANISH_OTHERS, SPANISH_LABELS) {
        return None;
    }
    let (millions, words) = after_millions(counted.words, &["millones", "millón"]);
    let words = if is_feminine_spanish(counted.after) {
        let words = words.replace("ientos", "ientas");
        match words.strip_suffix("uno") {
            Some(head) => format!("{head}una"),
            None => words,
        }
    } else {
        with_ending(words, "veintiuno", "veintiún").or_else(|| with_ending(words, "uno", "un"))?
    };
    Some(format!("{millions}{words}"))
}

fn is_feminine_spanish(noun: &str) -> bool {
    const MASCULINE: &[&str] = &[
        "artista",
        "clima",
        "cometa",
        "deportista",
        "día",
        "dilema",
        "diploma",
        "drama",
        "esquema",
        "futbolista",
        "idioma",
        "lema",
        "mapa",
        "panorama",
        "periodista",
        "planeta",
        "poema",
        "poeta",
        "problema",
        "programa",
        "síntoma",
        "sistema",
        "sofá",
        "tema",
        "teorema",
        "tranvía",
        "turista",
        "yoga",
    ];
    const FEMININE: &[&str] = &[
        "calle", "carne", "clase", "cruz", "flor", "foto", "frase", "fuente", "gente", "ley", "llave", "luz", "mano",
        "moto", "muerte", "mujer", "nave", "noche", "nube", "pared", "parte", "radio", "red", "sangre", "serie",
        "tarde", "torre", "vez", "voz", "imagen", "orden", "razón",
    ];
    let lower = noun.to_lowercase();
    let singular = [("ces", "z"), ("ágenes", "agen"), ("órdenes", "orden"), ("razones", "razón")]
        .iter()
        .find_map(|(plural, singular)| lower.strip_suffix(plural).map(|stem| format!("{stem}{singular}")));
    let bare = lower.strip_suffix('s').unwrap_or(&lower);
    let short = bare.strip_suffix('e').unwrap_or(bare);
    let is_in = |list: &[&str]| {
        list.contains(&bare) || list.contains(&short) || singular.as_deref().is_some_and(|word| list.contains(&word))
    };
    !is_in(MASCULINE)
        && (is_in(FEMININE)
            || bare.ends_with('a')
            || ["ción", "sión", "dad", "tad", "tud", "umbre"]
                .iter()
                .any(|ending| lower.ends_with(ending) || bare.ends_with(ending))
            || ["ciones", "siones", "dades", "tades", "tudes"].iter().any(|ending| lower.ends_with(ending)))
}

const PORTUGUESE_LABELS: &[&str] = &[
    "ano",
    "artigo",
    "canal",
    "capítulo",
    "categoria",
    "classe",
    "dia",
    "edição",
    "episódio",
    "etapa",
    "fase",
    "figura",
    "fórmula",
    "grupo",
    "linha",
    "nível",
    "número",
    "opção",
    "página",
    "parte",
    "passo",
    "ponto",
    "quarto",
    "sala",
    "seção",
    "tabela",
    "temporada",
    "tipo",
    "tomo",
    "versão",
    "volume",
];
const PORTUGUESE_OTHERS: &[&str] = &[
    "a", "ao", "aos", "após", "as", "às", "até", "com", "como", "contra", "da", "das", "de", "depois", "desde", "do",
    "dos", "e", "é", "ela", "elas", "ele", "eles", "em", "entre", "era", "está", "estão", "foi", "foram", "há", "mais",
    "mas", "menos", "na", "nas", "não", "no", "nos", "nós", "o", "os", "ou", "para", "pela", "pelas", "pelo", "pelos",
    "por", "quando", "que", "são", "se", "sem", "ser", "será", "seus", "sobre", "somos", "suas", "tem", "têm", "um",
    "uma", "vai", "vamos", "vão",
];

/// Portuguese: 22 horas is "vinte e duas horas", 200 páginas "duzentas páginas".
pub(super) fn portuguese(counted: &Counted) -> Option<String> {
    if !counted.counts(PORTUGUESE_OTHERS, PORTUGUESE_LABELS) || !is_feminine_portuguese(counted.after) {
        return None;
    }
    let (millions, words) = after_millions(counted.words, &["milhões", "milhão", "bilhões", "bilhão"]);
    let feminine = |word: &str| match word {
        "um" => "uma".to_owned(),
        "dois" => "duas".to_owned(),
        _ => match word.strip_suffix("entos") {
            Some(stem) => format!("{stem}entas"),
            None => word.to_owned(),
        },
    };
    let words: Vec<String> = words.split(' ').map(feminine).collect();
    Some(format!("{millions}{}", words.join(" ")))
}

fn is_feminine_portuguese(noun: &str) -> bool {
    const MASCULINE: &[&str] = &[
        "artista",
        "clima",
        "cometa",
        "dia",
        "diploma",
        "drama",
        "esquema",
        "grama",
        "idioma",
        "jornalista",
        "mapa",
        "miligrama",
        "planeta",
        "poema",
        "poeta",
        "problema",
        "programa",
        "quilograma",
        "sintoma",
        "sistema",
        "tema",
        "telefonema",
        "turista",
    ];
    const FEMININE: &[&str] = &[
        "carne", "classe", "cor", "flor", "foto", "frase", "gente", "lei", "luz", "mão", "mulher", "noite", "nuvem",
        "parte", "rede", "tarde", "tribo", "vez", "voz", "chave", "nave", "morte", "sorte", "fonte", "torre", "série",
    ];
    let lower = noun.to_lowercase();
    let bare = lower.strip_suffix('s').unwrap_or(&lower);
    let short = bare.strip_suffix('e').unwrap_or(bare);
    !MASCULINE.contains(&bare)
        && (FEMININE.contains(&bare)
            || FEMININE.contains(&short)
            || bare.ends_with('a')
            || ["ção", "são", "çõe", "sõe", "dade", "gem", "gen", "tude"].iter().any(|ending| bare.ends_with(ending)))
}

const FRENCH_LABELS: &[&str] = &[
    "article", "chapitre", "étape", "groupe", "ligne", "niveau", "numéro", "page", "partie", "phase", "tome", "type",
    "version", "volume",
];
const FRENCH_OTHERS: &[&str] =
    &["dans", "dès", "es", "les", "mais", "des", "nous", "vous", "plus", "moins", "puis", "sans", "sous", "est"];

/// French: 21 pages is "vingt et une pages".
pub(super) fn french(counted: &Counted) -> Option<String> {
    const FEMININE: &[&str] = &[
        "année", "chose", "équipe", "femme", "fille", "fois", "heure", "idée", "journée", "ligne", "maison", "minute",
        "page", "part", "personne", "pièce", "place", "question", "réponse", "rue", "seconde", "semaine", "tonne",
        "ville", "voiture", "étoile", "chambre", "nuit", "porte", "table", "œuvre",
    ];
    if !counted.counts(FRENCH_OTHERS, FRENCH_LABELS) {
        return None;
    }
    let lower = counted.after.to_lowercase();
    let bare = lower.strip_suffix('s').unwrap_or(&lower);
    let is_feminine = FEMININE.contains(&bare)
        || FEMININE.contains(&lower.as_str())
        || ["tion", "sion", "ette", "itude", "ance", "ence", "euse", "trice"]
            .iter()
            .any(|ending| bare.ends_with(ending))
            && !matches!(bare, "silence" | "squelette");
    is_feminine.then(|| with_ending(counted.words, "un", "une")).flatten()
}

const ITALIAN_LABELS: &[&str] = &[
    "articolo", "canale", "capitolo", "fase", "formula", "gruppo", "linea", "livello", "numero", "pagina", "parte",
    "passo", "punto", "tipo", "versione", "volume",
];
const ITALIAN_OTHERS: &[&str] = &[
    "a", "al", "alla", "anche", "che", "ci", "come", "con", "contro", "da", "dal", "dalla", "de", "dei", "del",
    "della", "delle", "di", "dopo", "e", "è", "ed", "era", "fa", "fino", "fra", "gli", "ha", "hanno", "i", "il", "in",
    "la", "le", "lo", "ma", "nel", "nella", "non", "o", "per", "più", "prima", "quando", "se", "senza", "si", "sono",
    "su", "sul", "sulla", "tra", "un", "una", "va",
];

/// Italian: 1 ora is "una ora", 1 zaino "uno zaino", 1 libro "un libro".
pub(super) fn italian(counted: &Counted) -> Option<String> {
    const MASCULINE: &[&str] = &[
        "artista",
        "clima",
        "diploma",
        "dramma",
        "pianeta",
        "poema",
        "poeta",
        "problema",
        "programma",
        "schema",
        "sistema",
        "tema",
        "turista",
    ];
    const FEMININE: &[&str] = &[
        "chiave", "classe", "croce", "fonte", "gente", "legge", "luce", "mano", "morte", "nave", "notte", "parte",
        "rete", "serie", "torre", "voce",
    ];
    let noun = counted.after.to_lowercase();
    let is_noun =
        !noun.is_empty() && !ITALIAN_OTHERS.contains(&noun.as_str()) && !ITALIAN_LABELS.contains(&counted.before);
    if !is_noun || (counted.value != 1 && !counted.words.ends_with(" uno")) {
        return None;
    }
    let is_feminine = !MASCULINE.contains(&noun.as_str())
        && (FEMININE.contains(&noun.as_str())
            || ["a", "zione", "sione", "gione", "trice", "tà", "tù"].iter().any(|ending| noun.ends_with(ending)));
    let mut letters = noun.chars();
    let (first, second) = (letters.next(), letters.next());
    let is_impure = matches!(first, Some('z' | 'x' | 'y'))
        || first == Some('s') && second.is_some_and(|c| !"aeiouàèéìòù".contains(c))
        || ["gn", "ps", "pn"].iter().any(|begin| noun.starts_with(begin));
    if is_feminine {
        with_ending(counted.words, "uno", "una")
    } else if is_impure {
        None
    } else {
        with_ending(counted.words, "uno", "un")
    }
}

const GERMAN_LABELS: &[&str] = &[
    "absatz", "akt", "artikel", "band", "block", "formel", "gleis", "gruppe", "halle", "haus", "kanal", "kapitel",
    "klasse", "level", "linie", "nummer", "phase", "platz", "punkt", "raum", "schritt", "seite", "stufe", "szene",
    "tag", "teil", "typ", "version", "zimmer",
];

/// German: 1 Buch is "ein Buch", 1 Stunde "eine Stunde", in 1 Stunde "in einer Stunde", 101 Euro "einhundertein Euro". Nouns are those with a capital.
pub(super) fn german(counted: &Counted) -> Option<String> {
    const FEMININE: &[&str] = &[
        "Antwort",
        "Art",
        "Frau",
        "Hand",
        "Mark",
        "Mutter",
        "Nacht",
        "Person",
        "Schwester",
        "Stadt",
        "Tochter",
        "Tür",
        "Wahl",
        "Zahl",
    ];
    const OTHERS: &[&str] =
        &["Auge", "Ende", "Erbe", "Gebäude", "Gemälde", "Junge", "Käse", "Kollege", "Kunde", "Name"];
    let noun = counted.after;
    if !noun.starts_with(char::is_uppercase) || GERMAN_LABELS.contains(&counted.before) {
        return None;
    }
    let is_feminine = !OTHERS.contains(&noun)
        && (FEMININE.contains(&noun)
            || ["e", "ung", "heit", "keit", "schaft", "ion", "tät", "ik"].iter().any(|ending| noun.ends_with(ending)));
    let head = counted.words.strip_suffix("eins")?;
    let is_dative = matches!(counted.before, "aus" | "bei" | "in" | "mit" | "nach" | "seit" | "von" | "vor" | "zu")
        && noun != "Uhr";
    let one = match (counted.value, is_feminine) {
        (1, true) if is_dative => "einer",
        (1, false) if is_dative => "einem",
        (1, true) => "eine",
        _ => "ein",
    };
    Some(format!("{head}{one}"))
}
