//! The words of PostgreSQL's messages in the languages into which it is translated.
//!
//! Source: the message catalogs of PostgreSQL 15 (German, Spanish, French, Italian, Japanese, Georgian, Korean, Russian,
//! Swedish, Ukrainian, simplified and traditional Chinese). A language that is not among them is reported as not
//! understood.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

use super::transport::compiled;

/// Severities and the other words that begin a part of an entry, each with its translations.
const SEVERITIES: &[(&str, &[&str])] = &[
    (
        "LOG",
        &[
            "ჟურნალი",
            "로그",
            "СООБЩЕНИЕ",
            "LOGG",
            "ЗАПИСУВАННЯ",
            "日志",
            "日誌",
        ],
    ),
    (
        "ERROR",
        &[
            "FEHLER",
            "ERREUR",
            "ERRORE",
            "შეცდომა",
            "오류",
            "ОШИБКА",
            "FEL",
            "ПОМИЛКА",
            "错误",
            "錯誤",
            "エラー",
        ],
    ),
    (
        "FATAL",
        &[
            "FATALE",
            "ფატალური",
            "치명적오류",
            "ВАЖНО",
            "FATALT",
            "ФАТАЛЬНО",
            "致命错误",
            "致命錯誤",
        ],
    ),
    (
        "PANIC",
        &[
            "PANIK",
            "PANICO",
            "პანიკა",
            "손상",
            "ПАНИКА",
            "ПАНІКА",
            "灾难性错误",
            "嚴重錯誤",
        ],
    ),
    (
        "WARNING",
        &[
            "WARNUNG",
            "ATTENTION",
            "ATTENZIONE",
            "გაფრთხილება",
            "경고",
            "ПРЕДУПРЕЖДЕНИЕ",
            "VARNING",
            "ПОПЕРЕДЖЕННЯ",
            "警告",
        ],
    ),
    (
        "NOTICE",
        &[
            "HINWEIS",
            "NOTIFICA",
            "알림",
            "ЗАМЕЧАНИЕ",
            "NOTIS",
            "ПОВІДОМЛЕННЯ",
            "注意",
        ],
    ),
    (
        "INFO",
        &[
            "ინფორმაცია",
            "정보",
            "ИНФОРМАЦИЯ",
            "ІНФОРМАЦІЯ",
            "信息",
            "資訊",
        ],
    ),
    (
        "DEBUG",
        &[
            "გამართვა",
            "디버그",
            "ОТЛАДКА",
            "НАЛАГОДЖЕННЯ",
            "调试",
            "除錯",
        ],
    ),
    (
        "DETAIL",
        &[
            "DETALLE",
            "DÉTAIL",
            "DETTAGLI",
            "詳細",
            "დეტალები",
            "상세정보",
            "ПОДРОБНОСТИ",
            "DETALJ",
            "ВІДОМОСТІ",
            "详情",
            "詳情",
        ],
    ),
    (
        "HINT",
        &[
            "TIPP",
            "ASTUCE",
            "SUGGERIMENTO",
            "ヒント",
            "მინიშნება",
            "힌트",
            "ПОДСКАЗКА",
            "TIPS",
            "УКАЗІВКА",
            "提示",
        ],
    ),
    (
        "STATEMENT",
        &[
            "ANWEISUNG",
            "SENTENCIA",
            "INSTRUCTION",
            "ISTRUZIONE",
            "文",
            "ოპერატორი",
            "명령 구문",
            "ОПЕРАТОР",
            "SATS",
            "ІНСТРУКЦІЯ",
            "语句",
            "陳述式",
        ],
    ),
    (
        "CONTEXT",
        &[
            "ZUSAMMENHANG",
            "CONTEXTO",
            "CONTEXTE",
            "CONTESTO",
            "文脈",
            "კონტექსტი",
            "내용",
            "КОНТЕКСТ",
            "KONTEXT",
            "上下文",
        ],
    ),
    (
        "QUERY",
        &[
            "ANFRAGE",
            "CONSULTA",
            "REQUÊTE",
            "問い合わせ",
            "მოთხოვნა",
            "쿼리",
            "ЗАПРОС",
            "FRÅGA",
            "ЗАПИТ",
            "查询",
            "查詢",
        ],
    ),
    (
        "LOCATION",
        &[
            "ORT",
            "UBICACIÓN",
            "EMPLACEMENT",
            "POSIZIONE",
            "場所",
            "მდებარეობა",
            "위치",
            "ПОЛОЖЕНИЕ",
            "PLATS",
            "РОЗТАШУВАННЯ",
            "位置",
        ],
    ),
    (
        "BACKTRACE",
        &[
            "PILE D'APPEL",
            "バックトレース",
            "სტეკი",
            "역추적",
            "СТЕК",
            "ВІДСТЕЖУВАТИ",
            "回溯",
        ],
    ),
];

/// What stands before a duration.
const DURATIONS: &str = "duration|Dauer|duración|durée|durata|期間|ხანგრძლივობა|실행시간|수행시간|продолжительность|\
                         varaktighet|тривалість|耗时|持續時間";
/// Milliseconds.
const UNITS: &str = "ms|ミリ秒|მწმs?|мс|毫秒";
const STATEMENTS: &str = "statement|Anweisung|sentencia|instruction|istruzione|文|გამოსახულება|ოპერატორი|명령 구문|\
                          оператор|sats|语句|陳述式";
/// A further Execute message of a portal.
const FETCHES: &str = "execute fetch from|Ausführen Fetch von|ejecutar fetch desde|exécute fetch à partir de|\
                       esecuzione di fetch da|取り出し実行|자료뽑기|выборка из|kör hämtning från|\
                       виконати витягнення з|执行提取，来源为|執行擷取，來源為";
const EXECUTES: &str = "execute|Ausführen|ejecutar|exécute|esecuzione di|実行|გაშვება|쿼리실행|выполнение|kör|\
                        виконувати|执行|執行";
/// Parse and Bind.
const PREPARES: &str = "parse|bind|Parsen|Binden|analyse|lien|analisi di|パース|バインド|მიბმა|разбор|сообщение Bind|\
                        аналізування|повідомлення bind|解析|绑定|繫結";
/// The same where the statement's name comes first.
const PREPARED: &str = "-ის დამუშავება| 구문분석| 접속";
const PARAMETERS: &[&str] = &[
    "parameters",
    "parameter",
    "parámetros",
    "paramètres",
    "parametri",
    "パラメータ",
    "პარამეტრები",
    "매개 변수",
    "параметры",
    "parametrar",
    "параметри",
    "参数",
    "參數",
];
const DISCONNECTIONS: &str = "disconnection|Verbindungsende|desconexión|déconnexion|disconnessione|接続を切断|연결종료|\
                              отключение|nedkoppling|відключення|断开连接|中斷連線";

static DURATION: LazyLock<Regex> = LazyLock::new(|| {
    compiled(&format!(
        r"(?s)^(?:{DURATIONS}) ?:? (?<number>[0-9]+(?:\.[0-9]+)?) (?:{UNITS})(?:,? +(?<rest>.*))?$"
    ))
});

static ACTION: LazyLock<Regex> = LazyLock::new(|| {
    compiled(&format!(
        r"(?s)^(?:(?<statement>{STATEMENTS}) ?: (?<sql>.*)|(?<fetch>(?:{FETCHES}) ).*|(?<execute>{EXECUTES}) (?<named>.*)|(?:{PREPARES})[ :]?.*|[^ ]+(?:{PREPARED}): .*)$"
    ))
});

static DISCONNECTION: LazyLock<Regex> =
    LazyLock::new(|| compiled(&format!("^(?:{DISCONNECTIONS}) ?: ")));

/// All words that begin a part of an entry, in all languages.
pub(super) fn severities() -> impl Iterator<Item = &'static str> {
    SEVERITIES
        .iter()
        .flat_map(|(english, others)| std::iter::once(*english).chain(others.iter().copied()))
}

/// The English word for such a word.
pub(super) fn severity(word: &str) -> Option<&'static str> {
    let found = SEVERITIES
        .iter()
        .find(|(english, others)| *english == word || others.contains(&word));
    found.map(|(english, _)| *english)
}

/// Whether a word introduces the values of parameters.
pub(super) fn is_parameters(word: &str) -> bool {
    PARAMETERS.contains(&word.trim_end().to_lowercase().as_str())
}

/// A message about a statement with its words in English; any other message as it is.
pub(super) fn english(message: &str) -> Cow<'_, str> {
    if let Some(found) = DURATION.captures(message) {
        let number = &found["number"];
        return match found.name("rest") {
            None => format!("duration: {number} ms").into(),
            Some(rest) => format!("duration: {number} ms  {}", action(rest.as_str())).into(),
        };
    }
    if DISCONNECTION.is_match(message) {
        return "disconnection: ".into();
    }
    action(message)
}

/// What was done, in English.
fn action(text: &str) -> Cow<'_, str> {
    let Some(found) = ACTION.captures(text) else {
        return text.into();
    };
    if let Some(sql) = found.name("sql") {
        format!("statement: {}", sql.as_str()).into()
    } else if let Some(fetch) = found.name("fetch") {
        format!("execute fetch from {}", &text[fetch.end()..]).into()
    } else if let Some(named) = found.name("named") {
        // French has a blank before the colon behind Parse's and Bind's names.
        format!("execute {}", named.as_str()).into()
    } else {
        format!("parse {text}").into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_in_other_languages_become_english() {
        for (message, expected) in [
            (
                "Dauer: 0.035 ms  Anweisung: SELECT 1",
                "duration: 0.035 ms  statement: SELECT 1",
            ),
            (
                "durée : 0.035 ms, instruction : SELECT 1\n\t+ 1",
                "duration: 0.035 ms  statement: SELECT 1\n\t+ 1",
            ),
            (
                "durée : 1.5 ms  exécute S_1/C_1: SELECT $1",
                "duration: 1.5 ms  execute S_1/C_1: SELECT $1",
            ),
            (
                "продолжительность: 0.1 мс, оператор: SELECT 1",
                "duration: 0.1 ms  statement: SELECT 1",
            ),
            (
                "продолжительность: 0.1 мс  выборка из S/C: SELECT 1",
                "duration: 0.1 ms  execute fetch from S/C: SELECT 1",
            ),
            (
                "期間: 0.1 ミリ秒  実行 <unnamed>: SELECT 1",
                "duration: 0.1 ms  execute <unnamed>: SELECT 1",
            ),
            (
                "期間: 0.1 ミリ秒  取り出し実行 S/C: SELECT 1",
                "duration: 0.1 ms  execute fetch from S/C: SELECT 1",
            ),
            ("varaktighet 0.2 ms", "duration: 0.2 ms"),
            ("实", "实"),
            ("语句: SELECT 1", "statement: SELECT 1"),
            ("checkpoint starting: time", "checkpoint starting: time"),
            (
                "duration: 1.0 ms  plan:\nQuery Text: x",
                "duration: 1.0 ms  plan:\nQuery Text: x",
            ),
        ] {
            assert_eq!(english(message), expected);
        }
        for prepared in [
            "durée : 0.1 ms, lien S_1 : SELECT 1",
            "실행시간: 0.1 ms  S_1 구문분석: SELECT 1",
            "Dauer: 0.1 ms  Parsen S_1: SELECT 1",
            "duración: 0.1 ms  parse: S_1: SELECT 1",
        ] {
            assert!(
                english(prepared).starts_with("duration: 0.1 ms  parse "),
                "{prepared}"
            );
        }
    }
}
