//! Given names that are common in several languages, and words that introduce a name.

/// Common given names in lower case. Names that are common words too are in [`AMBIGUOUS`].
const GIVEN_NAMES: &str = " aaron abdul abigail adam adrian ahmed aisha alan albert alejandro alessandro alex alexander alexandra alexei alice alicia \
alina alisha allison amanda amelia amir amit amy ana anastasia andrea andreas andrei andrew angela anita anja ann anna anne annette annika anthony antoine antonio \
anya arjun arthur ashley astrid audrey barbara bart beatrice beatriz ben benjamin bernard beth betty bianca bob boris brenda brian brigitte bruno bryan camila camille carl \
carla carlos carmen carol caroline catherine cecilia charles charlotte chen chloe chris christian christina christine christoph christopher claire clara claudia \
clara colin craig cristina cynthia daniel daniela david deborah deepak denise dennis diana diego dieter dimitri dmitri dominic donald donna dorothy douglas edith edward elena elias \
elif elisabeth elizabeth ella ellen emily emma eric erik esther ethan eugene eva evelyn fatima felix fernando filip fiona florian francesca francesco francis francisco \
franz frederic gabriel gabriela gary geoffrey george gerald giovanni giulia giuseppe gloria gonzalo gregory greta guillaume gustavo hanna hannah hans harold harry hassan heather heidi \
heinrich helen helena helga henri henrik henry hiroshi hugo ian ibrahim ines ingrid irene irina isaac isabel isabella isabelle ivan jacob jacqueline jacques jake james jamie jan jana jane janet \
jason javier jean jeff jeffrey jenna jennifer jeremy jerry jesse jessica joan joanna joao johannes john johnny jon jonas jonathan jorge jose josef joseph joshua juan juana judith julia julian julie \
jurgen justin kai karen karim karin karl karla katarina kate katherine kathleen katja kavita keiko keith kelly ken kenneth kenji kevin khalid kim klaus krishna kristina kumar kurt kyle lara larry lars \
laura lauren laurent layla lena leon leonard leonardo leonie li liam lina linda lisa logan louis louise luca lucas lucia lucy luis luisa lukas luke lydia magdalena malik manuel marc marcel marco marcos \
marcus margaret maria mariana marie marina mario marion marius marta martha martin martina mary mateo matteo matthew matthias maurice max maya megan mei melanie melissa michael michel michelle miguel mikhail \
mila milan miriam mohamed mohammed monica monika moritz muhammad nadia nadine nancy naomi natalia natalie natasha nathan neha neil nicholas nicolas nicole nikolai nina nisha noah nora norman oliver olivia olga \
omar oscar pablo pamela paolo patricia patricio paul paula paulo pavel pedro peter petra philip philipp phillip pierre pietro piotr priya rachel rafael rahul rainer raj rajesh ralph ramon raquel raul ravi raymond rebecca \
regina rene ricardo richard rita robert roberta roberto rodrigo roger roland roman ronald rosa rosemary ruth ryan sabine sabrina sally samantha sameer samuel sandeep sandra sanjay sara sarah sascha scott sean sebastian \
sergei sergio sharon sheila shirley silvia simon simone sofia sonia sophia sophie stefan stefania stefanie stephan stephanie stephen steve steven stuart susan susanne sven svetlana sylvia takashi tamara tanja tanya tariq tatiana \
teresa terry thomas thorsten tiago tim timothy tina tobias todd tom tomas tommy toni tony tracy tyler ulrich ursula valentina valerie vanessa vera veronica victor victoria vijay viktor vincent virginia vivian vladimir walter wang wei \
wendy wilhelm william wolfgang xavier yasmin yuki yusuf yves yvonne zhang zoe zoltan ";

/// Given names that are common words too: names only beside another capitalised word.
const AMBIGUOUS: &str = " april art august bill brook christian dean drew faith frank gene grace guy heath holly hope iris ivy jack jade jan jay joy june kim ken li \
lily mark max may mei miles mike nick olive patience pat ray rich rob rose ruby sam sky sue sunny summer ted terry tim tom wang wei will ";

/// Whether a word is a common given name and hardly anything else.
pub fn is_given_name(word: &str) -> bool {
    has(GIVEN_NAMES, word) && !has(AMBIGUOUS, word)
}

/// Whether a word is a common given name, or may be one.
pub fn may_be_given_name(word: &str) -> bool {
    has(GIVEN_NAMES, word) || has(AMBIGUOUS, word)
}

/// Titles in lower case, without a stop, after which a name follows.
pub fn is_title(word: &str) -> bool {
    const TITLES: &str = " mr mrs ms miss mister dr doctor prof professor sir madam herr frau monsieur madame mme mlle señor señora señorita sr sra \
srta senhor senhora dona don signor signora signore dott ";
    has(TITLES, word)
}

fn has(list: &str, word: &str) -> bool {
    word.len() <= 16 && !word.contains(' ') && list.contains(&format!(" {} ", word.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_from_words() {
        assert!(is_given_name("Maria") && is_given_name("john"));
        assert!(!is_given_name("May") && may_be_given_name("May"));
        assert!(!may_be_given_name("meeting") && !may_be_given_name(""));
        assert!(is_title("Dr") && !is_title("driver"));
    }
}
