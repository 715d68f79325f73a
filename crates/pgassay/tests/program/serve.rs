//! `pgassay serve` from outside: what is shown of real runs and of broken ones, and what nobody gets.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use crate::runs::{Runs, Signal, signal, text};

/// `pgassay serve` over a directory of runs, ended with its test.
pub struct Served {
    pub child: Child,
    port: u16,
    key: String,
}

impl Served {
    pub fn start(runs: &Runs, more: &[&str]) -> Self {
        let dir = runs.0.to_str().unwrap().to_owned();
        let mut args = vec!["serve", &dir];
        args.extend(more);
        let mut child = runs.start(&args);
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        Self::of(child, &line)
    }

    /// The pages at an address as it is printed, with the key in it.
    pub fn of(child: Child, address: &str) -> Self {
        let (_, own) = address.split_once("http://127.0.0.1:").expect(address);
        let (port, rest) = own.trim().split_once('/').expect(address);
        let (key, _) = rest.split_once('/').expect(address);
        Self {
            port: port.parse().unwrap(),
            key: key.to_owned(),
            child,
        }
    }

    pub fn open(&self, path: &str, accept: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(120)))
            .unwrap();
        let (port, key) = (self.port, &self.key);
        write!(
            stream,
            "GET /{key}{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: {accept}\r\n\r\n"
        )
        .unwrap();
        stream
    }

    /// Sends a form with these headers beside those that every page's has; status and head.
    pub fn post(&self, path: &str, more: &str, form: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let (port, key, length) = (self.port, &self.key, form.len());
        write!(
            stream,
            "POST /{key}{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{more}\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n{form}"
        )
        .unwrap();
        let (status, head, content) = taken_apart(stream);
        (status, head + &content)
    }

    /// What stands before every address in its pages.
    pub fn root(&self) -> String {
        format!("/{}", self.key)
    }

    /// The fields that the form to this address sends, as the page shows them.
    pub fn form_of(&self, page: &str, to: &str) -> String {
        let begin = format!("action=\"{}{to}\"", self.root());
        let (_, form) = page.split_once(&begin).expect(page);
        let (form, _) = form.split_once("</form>").unwrap();
        let value = |field: &str, of: &str| {
            let (_, rest) = field.split_once(&format!("{of}=\"")).unwrap();
            rest.split_once('"').unwrap().0.to_owned()
        };
        let fields = form.split("<input ").skip(1);
        let fields = fields.map(|f| format!("{}={}", value(f, "name"), value(f, "value")));
        fields.collect::<Vec<_>>().join("&")
    }

    /// The Origin of its own pages, as a header.
    pub fn origin(&self) -> String {
        format!("Origin: http://127.0.0.1:{}\r\n", self.port)
    }

    /// Status, head and content of an answer.
    pub fn get(&self, path: &str) -> (u16, String, String) {
        taken_apart(self.open(path, "text/html"))
    }

    pub fn page(&self, path: &str) -> String {
        let (status, head, content) = self.get(path);
        assert_eq!(status, 200, "{path}: {head}\n{content}");
        content
    }

    /// The list, once all is read.
    pub fn list(&self) -> String {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let page = self.page("/");
            if !page.contains("data-unread=\"") {
                return page;
            }
            assert!(Instant::now() < until, "{page}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn taken_apart(mut stream: TcpStream) -> (u16, String, String) {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let answer = text(&bytes);
    let (head, content) = answer.split_once("\r\n\r\n").expect(&answer);
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_lowercase(), content.to_owned())
}

/// A short run; its directory.
pub fn measured(runs: &Runs) -> PathBuf {
    let words = "run select-only temp --clients 1,2 --trials 3 --time 0.1 --warmup 0 --scale 1";
    let output = runs.run(&words.split(' ').collect::<Vec<_>>());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut all = fs::read_dir(&runs.0).unwrap().flatten();
    all.next().unwrap().path()
}

pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

pub fn name(dir: &Path) -> &str {
    dir.file_name().unwrap().to_str().unwrap()
}

#[test]
fn runs_are_listed_searched_shown_and_compared() {
    let runs = Runs::new("serve");
    let first = measured(&runs);
    let second = runs.0.join("20300101T000000Z-select-only-aaaa");
    copy(&first, &second);
    let served = Served::start(&runs, &[]);
    let list = served.list();
    for part in [
        "2 runs",
        "select-only",
        "PostgreSQL ",
        " tps",
        name(&first),
        name(&second),
    ] {
        assert!(list.contains(part), "{part}: {list}");
    }
    assert!(list.contains("class=\"spark\""), "a curve: {list}");
    // What is searched stands in the address.
    let found = served.page("/?q=SELECT-only+20300101");
    assert!(found.contains("1 of 2 runs"), "{found}");
    let none = served.page("/?q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E");
    assert!(
        none.contains("Nothing matches") && !none.contains("<script>alert"),
        "{none}"
    );
    assert!(served.page("/?command=assay").contains("Nothing matches"));
    assert!(
        served
            .page("/?command=run&part=rows")
            .starts_with("<p class=\"count\"")
    );

    let run = format!("/run/{}", name(&first));
    let page = served.page(&run);
    assert!(
        page.contains("select-only over clients") && page.contains("Share as one file"),
        "{page}"
    );
    // The file to share is the report's own: nothing of this server is in it.
    let (status, head, file) = served.get(&format!("{run}/file"));
    assert_eq!(status, 200);
    let disposition = format!(
        "attachment; filename=\"{}.html\"",
        name(&first).to_lowercase()
    );
    assert!(head.contains(&disposition), "{head}");
    let recorded = fs::read_to_string(first.join("report.html")).unwrap();
    assert!(file == recorded, "the same file that the run itself wrote");
    assert!(!file.contains(&served.key) && !file.contains("class=\"bar\""));
    let json: serde_json::Value =
        serde_json::from_str(&served.page(&format!("{run}/json"))).unwrap();
    assert_eq!(json["schema"], "pgassay/analysis/1");

    let both = served.page(&format!(
        "/compare?run={}&run={}",
        name(&first),
        name(&second)
    ));
    for part in [
        "2 runs side by side",
        "B against A",
        "What differs",
        "recorded apart",
    ] {
        assert!(both.contains(part), "{part}: {both}");
    }
    let history = served.page(&format!("/history?run={}", name(&first)));
    assert!(history.contains("History of select-only"), "{history}");
    for (path, status) in [
        ("/compare?run=a", 400),
        ("/compare?run=a&run=b", 404),
        ("/history?run=nothing", 404),
        ("/run/nothing", 404),
        ("/nothing", 404),
    ] {
        assert_eq!(served.get(path).0, status, "{path}");
    }
    // A run that vanishes is not there any more.
    fs::remove_dir_all(&second).unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(served.get(&format!("/run/{}", name(&second))).0, 404);
    assert!(served.list().contains("1 run"));
}

#[test]
fn what_is_broken_or_leads_elsewhere_is_not_followed() {
    let runs = Runs::new("serve-hostile");
    let good = measured(&runs);
    let outside = Runs::new("serve-outside");
    let secret = outside.0.join("20250101T000000Z-secret-aaaa");
    copy(&good, &secret);
    symlink(&secret, runs.0.join("20250101T000000Z-linked-aaaa")).unwrap();
    let inside = runs.0.join("20250102T000000Z-link-inside-aaaa");
    copy(&good, &inside);
    fs::remove_file(inside.join("trials.jsonl")).unwrap();
    symlink(secret.join("trials.jsonl"), inside.join("trials.jsonl")).unwrap();
    let cut = runs.0.join("20250103T000000Z-cut-aaaa");
    copy(&good, &cut);
    let header = fs::read_to_string(good.join("run.json")).unwrap();
    fs::write(cut.join("run.json"), &header[..header.len() / 2]).unwrap();
    let half = runs.0.join("20250104T000000Z-half-aaaa");
    copy(&good, &half);
    let trials = fs::read_to_string(good.join("trials.jsonl")).unwrap();
    fs::write(half.join("trials.jsonl"), &trials[..trials.len() - 40]).unwrap();
    let hostile = runs
        .0
        .join("20250105T000000Z-\"><img src=x onerror=alert(1)>-aaaa");
    copy(&good, &hostile);
    let script = "<script>alert(1)</script>\\u001b[2J";
    let text = header
        .replace("\"select-only\"", &format!("\"{script}\""))
        .replace(
            "\"command\": \"run\"",
            &format!("\"command\": \"{script}\""),
        )
        .replace("\"target\": \"", &format!("\"target\": \"{script}"));
    assert!(text.matches("alert(1)").count() >= 3, "{text}");
    fs::write(hostile.join("run.json"), text).unwrap();
    fs::write(runs.0.join("a file"), "").unwrap();
    fs::create_dir(runs.0.join("no run")).unwrap();

    let served = Served::start(&runs, &[]);
    let list = served.list();
    let hostile = "/run/20250105T000000Z-%22%3E%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E-aaaa";
    let pages = [
        list.clone(),
        served.page(hostile),
        served.page("/history"),
        served.page(&format!(
            "/compare?run={}&run={}",
            name(&good),
            &hostile[5..]
        )),
        served.get("/run/%3Cscript%3Ealert(1)%3C%2Fscript%3E").2,
    ];
    for page in &pages {
        for never in ["<script>alert", "<img", "\u{1b}"] {
            assert!(!page.contains(never), "{never:?}: {page}");
        }
    }
    assert!(list.contains("5 runs"), "{list}");
    assert!(!list.contains("linked"), "{list}");
    // Each that can't be read says why, and the others are there.
    assert_eq!(served.get("/run/20250101T000000Z-linked-aaaa").0, 404);
    for (run, why) in [
        (
            "20250102T000000Z-link-inside-aaaa",
            "neither a file nor a directory",
        ),
        ("20250103T000000Z-cut-aaaa", "is damaged"),
    ] {
        let (status, _, said) = served.get(&format!("/run/{run}"));
        assert!(status == 422 && said.contains(why), "{status} {said}");
        assert!(list.contains(why), "{list}");
    }
    assert!(
        served
            .page("/run/20250104T000000Z-half-aaaa")
            .contains("cut short")
    );
    for path in [
        "/run/..",
        "/run/%2e%2e",
        "/run/..%2f..%2fetc",
        "/run/%2fetc",
        "/run/a%00b",
        "/../../etc/passwd",
        "/run//etc/passwd",
        "/live/..",
        "/run/no%20run",
        "/run/a%20file",
    ] {
        assert_eq!(served.get(path).0, 404, "{path}");
    }
}

#[test]
fn a_run_is_followed_while_it_is_measured() {
    let runs = Runs::new("serve-live");
    let words = "run select-only temp --clients 1,2 --trials 2000 --time 0.1 --warmup 0 --scale 1";
    let mut measuring = runs.start(&words.split(' ').collect::<Vec<_>>());
    let dir = runs.await_trials(4);
    let served = Served::start(&runs, &[]);
    let list = served.page("/");
    assert!(
        list.contains("being measured") && list.contains("● select-only"),
        "{list}"
    );
    let page = served.page(&format!("/run/{}", name(&dir)));
    let feed = format!("/live/{}", name(&dir));
    let shown = format!("data-feed=\"{}{feed}\"", served.root());
    assert!(page.contains(&shown), "{page}");
    assert!(page.contains("of 4,000 trials measured"), "{page}");

    // A browser that closes in mid-stream is no matter, and the next is told all the same.
    drop(served.open(&feed, "text/event-stream"));
    let mut events = BufReader::new(served.open(&feed, "text/event-stream"));
    let mut told = Vec::new();
    let mut line = String::new();
    while told.len() < 2 {
        line.clear();
        assert!(events.read_line(&mut line).unwrap() > 0, "the feed ended");
        let progress = line.split_once(" of 4,000 trials measured");
        if let Some((before, _)) = progress.filter(|_| line.contains("data:")) {
            let digits = before
                .rsplit(|c: char| !c.is_ascii_digit() && c != ',')
                .next();
            told.push(digits.unwrap().replace(',', "").parse::<u32>().unwrap());
        }
    }
    assert!(told[0] < told[1], "{told:?}");
    // When it ends, its readers are told, and it has a report.
    signal(measuring.id(), Signal::INT);
    let mut rest = String::new();
    events.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("event: end"), "{rest}");
    measuring.wait().unwrap();
    assert!(
        served
            .page(&format!("/run/{}", name(&dir)))
            .contains("Share as one file")
    );
    let gone = text(&{
        let mut bytes = Vec::new();
        served
            .open(&feed, "text/event-stream")
            .read_to_end(&mut bytes)
            .unwrap();
        bytes
    });
    assert!(gone.starts_with("HTTP/1.1 204"), "{gone}");
}

#[test]
fn it_ends_at_once_and_says_what_it_can_not_have() {
    let runs = Runs::new("serve-ends");
    fs::create_dir_all(&runs.0).unwrap();
    let mut served = Served::start(&runs, &[]);
    assert!(served.list().contains("No run is recorded here"));
    // Connections that are open hold up nothing.
    let _idle = TcpStream::connect(("127.0.0.1", served.port)).unwrap();
    signal(served.child.id(), Signal::INT);
    let status = served.child.wait().unwrap();
    assert_eq!(status.code(), Some(0));

    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let dir = runs.0.to_str().unwrap();
    let output = runs.run(&["serve", dir, "--port", &port]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(
        said.contains("is used by another program") && said.contains("--port"),
        "{said}"
    );

    let output = runs.run(&["serve", "/nonexistent-directory"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}

#[test]
fn a_measurement_shows_itself_where_that_is_asked_for() {
    let runs = Runs::new("serve-watch");
    let words =
        "run select-only temp --clients 1 --trials 2000 --time 0.1 --warmup 0 --scale 1 --watch";
    let mut measuring = runs.start(&words.split(' ').collect::<Vec<_>>());
    let mut said = BufReader::new(measuring.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("watch it: ") {
        line.clear();
        assert!(
            said.read_line(&mut line).unwrap() > 0,
            "no address was said"
        );
    }
    let address = line
        .trim()
        .strip_prefix("watch it: http://127.0.0.1:")
        .unwrap();
    let (port, path) = address.split_once('/').expect(&line);
    let (key, _) = path.split_once("/now").expect(&line);
    runs.await_trials(2);
    let get = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port.parse().unwrap())).unwrap();
        write!(stream, "GET /{path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        text(&bytes)
    };
    let until = Instant::now() + Duration::from_secs(60);
    let mut page = get();
    while !page.contains(&format!("data-feed=\"/{key}/live/")) {
        assert!(Instant::now() < until, "{page}");
        std::thread::sleep(Duration::from_millis(200));
        page = get();
    }
    assert!(page.contains("of 2,000 trials measured"), "{page}");
    signal(measuring.id(), Signal::INT);
    // Its pages end with it.
    assert_eq!(measuring.wait().unwrap().code(), Some(4));
}

/// A cookie would be sent to a server of another user, on another port of this machine.
#[test]
fn who_has_no_key_gets_nothing_and_no_answer_sets_a_cookie() {
    let runs = Runs::new("serve-closed");
    let run = measured(&runs);
    let served = Served::start(&runs, &["--allow-run"]);
    served.list();
    let (port, key) = (served.port, &served.key);
    let run = format!("/run/{}", name(&run));
    let ask = |target: &str, more: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let host = format!("Host: 127.0.0.1:{port}\r\n");
        write!(stream, "GET {target} HTTP/1.1\r\n{host}{more}\r\n").unwrap();
        taken_apart(stream)
    };
    let (file, json) = (format!("{run}/file"), format!("{run}/json"));
    for path in [
        "/", "/now", &run, &file, &json, "/compare", "/history", "/metrics", "/start", "/started",
        "/live/a", "/nothing",
    ] {
        let cookie = format!("Cookie: pgassay-{port}={key}; key={key}\r\n");
        let wrong = format!("/{}{path}", "0".repeat(32));
        for target in [path, &format!("{path}?k={key}"), &wrong] {
            let (status, head, said) = ask(target, &cookie);
            assert_eq!(status, 403, "{target}: {head}");
            assert!(said.contains("Open the address that pgassay serve printed"));
            assert!(!head.contains("set-cookie"), "{head}");
        }
        let (_, head, _) = served.get(path);
        assert!(!head.contains("set-cookie"), "{head}");
        assert!(head.contains("referrer-policy: same-origin"), "{head}");
    }
    let bearer = format!("Authorization: Bearer {key}\r\n");
    assert_eq!(ask("/metrics", &bearer).0, 200);

    // A form is sent as its own page shows it, or not at all.
    let asked = served.page(&format!(
        "/start?what=repeat&{}",
        run.replacen("/run/", "run=", 1)
    ));
    let form = served.form_of(&asked, "/start");
    let (fields, token) = form.split_once("&token=").expect(&form);
    let own = served.origin();
    for wrong in [
        fields.to_owned(),
        format!("{fields}&token="),
        format!("{fields}&token={}", "0".repeat(64)),
        format!("token={token}"),
        form.replacen("repeat", "resume", 1),
    ] {
        let (status, said) = served.post("/start", &own, &wrong);
        assert!(
            status == 403 && said.contains("load the page again"),
            "{wrong}: {said}"
        );
    }
    assert_eq!(served.post("/stop", &own, &form).0, 403);
    assert_eq!(served.get("/started").0, 404, "nothing was started");
}
