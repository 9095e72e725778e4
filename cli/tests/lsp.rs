//! `profiler lsp` and `profiler check --json` as an editor uses them: the built binary, over pipes.
//!
//! In: messages. Out: the replies, in order.
//! Guarantee: tests that need this kernel's tracepoints print `SKIPPED: reason` if they cannot be
//! read.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

const URI: &str = "file:///tmp/no%20such/x.prof";

struct Editor {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next_id: u64,
}

impl Editor {
    fn new() -> Editor {
        let mut child = Command::new(env!("CARGO_BIN_EXE_profiler"))
            .args(["lsp", "--stdio"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("the binary runs");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Editor { child, input, output, next_id: 0 }
    }

    fn initialized() -> Editor {
        let mut editor = Editor::new();
        let reply = editor.ask("initialize", &json!({"processId": null, "rootUri": null, "capabilities": {}}));
        assert_eq!(reply["result"]["capabilities"]["textDocumentSync"]["change"], 1);
        editor.tell("initialized", &json!({}));
        editor
    }

    fn send(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("it is open");
        input.write_all(bytes).and_then(|()| input.flush()).expect("the server reads");
    }

    fn frame(&mut self, message: &Value) {
        let text = message.to_string();
        self.send(format!("Content-Length: {}\r\n\r\n{text}", text.len()).as_bytes());
    }

    fn tell(&mut self, method: &str, params: &Value) {
        self.frame(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Sends a request and returns its reply, skipping diagnostics that arrive before it.
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        self.frame(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let message = self.receive();
            if message["id"] == json!(id) {
                return message;
            }
            assert_eq!(message["method"], "textDocument/publishDiagnostics", "{message}");
        }
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a header");
        let length = line.trim().strip_prefix("Content-Length: ").unwrap_or_else(|| panic!("no header: {line:?}"));
        let mut bytes = vec![0; length.parse::<usize>().expect("a length") + 2];
        self.output.read_exact(&mut bytes).expect("a body");
        serde_json::from_slice(&bytes[2..]).expect("JSON")
    }

    fn open(&mut self, text: &str) -> Value {
        let document = json!({"uri": URI, "languageId": "profiler", "version": 1, "text": text});
        self.tell("textDocument/didOpen", &json!({"textDocument": document}));
        self.receive()
    }

    fn change(&mut self, version: u32, text: &str) {
        let params = json!({"textDocument": {"uri": URI, "version": version}, "contentChanges": [{"text": text}]});
        self.tell("textDocument/didChange", &params);
    }

    fn at(&mut self, method: &str, line: u32, character: u32) -> Value {
        let params = json!({"textDocument": {"uri": URI}, "position": {"line": line, "character": character}});
        self.ask(method, &params)["result"].take()
    }

    /// Closes the pipe and returns the server's exit code.
    fn end(mut self) -> Option<i32> {
        drop(self.input.take());
        self.child.wait().expect("it ends").code()
    }
}

fn labels(result: &Value) -> Vec<&str> {
    result["items"].as_array().expect("items").iter().filter_map(|item| item["label"].as_str()).collect()
}

/// Whether the arguments of tracepoints are known on this machine.
fn has_tracepoints() -> bool {
    let mut command = Command::new(env!("CARGO_BIN_EXE_profiler"));
    let output = command.args(["list", "-v", "tracepoint:syscalls:sys_enter_openat"]).output().expect("it runs");
    let has = String::from_utf8_lossy(&output.stdout).contains("filename");
    if !has {
        println!("SKIPPED: the arguments of tracepoints cannot be read here");
    }
    has
}

#[test]
fn a_mistake_is_shown_where_it_is_and_goes_when_it_is_mended() {
    let mut editor = Editor::initialized();
    // The emoji is one character and two UTF-16 code units.
    let shown = editor.open("BEGIN {\n  printf(\"😀\"); @x = cuont();\n}\n");
    assert_eq!((&shown["method"], &shown["params"]["uri"]), (&json!("textDocument/publishDiagnostics"), &json!(URI)));
    let found = &shown["params"]["diagnostics"];
    assert_eq!(found.as_array().map(Vec::len), Some(1), "{shown}");
    assert_eq!(found[0]["code"], "E0203");
    assert_eq!(found[0]["range"], json!({"start": {"line": 1, "character": 21}, "end": {"line": 1, "character": 26}}));
    assert!(found[0]["message"].as_str().is_some_and(|words| words.contains("help: did you mean `count`?")), "{shown}");
    editor.change(2, "BEGIN {\n  @x = count();\n}\n");
    let shown = editor.receive();
    assert_eq!((&shown["params"]["diagnostics"], &shown["params"]["version"]), (&json!([]), &json!(2)));
    editor.tell("textDocument/didClose", &json!({"textDocument": {"uri": URI}}));
    assert_eq!(editor.receive()["params"]["diagnostics"], json!([]));
    assert_eq!(editor.ask("shutdown", &Value::Null)["result"], Value::Null);
    editor.tell("exit", &Value::Null);
    assert_eq!(editor.end(), Some(0));
}

#[test]
fn words_and_fields_are_completed() {
    let mut editor = Editor::initialized();
    editor.open("tracepoint:syscalls:sys_enter_openat { @a = hi; @b = args.; }");
    let words = editor.at("textDocument/completion", 0, 46);
    assert!(labels(&words).contains(&"hist("), "{words}");
    let edit = &words["items"][0]["textEdit"]["range"];
    assert_eq!(*edit, json!({"start": {"line": 0, "character": 44}, "end": {"line": 0, "character": 46}}));
    if has_tracepoints() {
        let fields = editor.at("textDocument/completion", 0, 58);
        assert!(labels(&fields).contains(&"filename") && !labels(&fields).contains(&"pid"), "{fields}");
        let field = fields["items"].as_array().and_then(|items| items.iter().find(|item| item["label"] == "filename"));
        assert_eq!(field.map(|field| &field["detail"]), Some(&json!("const char *")));
    }
}

#[test]
fn modules_parameters_and_symbols_of_programs_are_completed() {
    let mut editor = Editor::initialized();
    let probe = format!("uprobe:{}:mai", env!("CARGO_BIN_EXE_profiler"));
    editor.open(&format!("param slow: duration = 1ms \"waits\"\nuse proc/e\nBEGIN {{ print($s); }}\n{probe}"));
    assert_eq!(labels(&editor.at("textDocument/completion", 1, 10)), ["use proc/exec", "use proc/exits"]);
    let param = editor.at("textDocument/completion", 2, 16);
    assert_eq!((labels(&param), &param["items"][0]["detail"]), (vec!["$slow"], &json!("duration: waits")));
    let symbols = editor.at("textDocument/completion", 3, probe.len() as u32);
    let main = format!("{}main", &probe[..probe.len() - 3]);
    assert!(labels(&symbols).contains(&main.as_str()), "{symbols}");
    assert_eq!(symbols["isIncomplete"], json!(false));
}

#[test]
fn words_fields_and_maps_are_explained() {
    let mut editor = Editor::initialized();
    editor.open(
        "tracepoint:syscalls:sys_enter_openat {\n  @a[pid] = hist(1);\n  printf(\"pid %s\", str(args.filename));\n}",
    );
    let hist = editor.at("textDocument/hover", 1, 13);
    assert!(hist["contents"]["value"].as_str().is_some_and(|page| page.starts_with("# hist(n")), "{hist}");
    assert_eq!(hist["range"], json!({"start": {"line": 1, "character": 12}, "end": {"line": 1, "character": 16}}));
    assert_eq!(editor.at("textDocument/hover", 2, 11), Value::Null, "a word in a string");
    assert_eq!(editor.at("textDocument/hover", 99, 99), Value::Null);
    if has_tracepoints() {
        let field = editor.at("textDocument/hover", 2, 30);
        assert_eq!(field["contents"]["value"], "```c\nconst char * filename\n```");
        let map = editor.at("textDocument/hover", 1, 3);
        assert_eq!(map["contents"]["value"], "```\nmap @a[uint32]: hist(0) of signed values\n```");
    }
}

#[test]
fn words_of_the_language_are_explained_and_names_are_not() {
    let mut editor = Editor::initialized();
    let script = "span call by tid { start BEGIN end END }\nview \"top every\" { of @a top 3 every 1s }\nBEGIN { $top = 1; /* every */ if ($top) { @a[1] = count(); } }\n";
    editor.open(script);
    for (line, column, start) in [
        (0, 1, "```\nspan "),
        (0, 11, "```\nspan "),
        (1, 1, "```\nview "),
        (1, 27, "```\ntop "),
        (1, 33, "```\nevery "),
        (2, 31, "```\nif ("),
    ] {
        let found = editor.at("textDocument/hover", line, column);
        assert!(found["contents"]["value"].as_str().is_some_and(|text| text.starts_with(start)), "{start}: {found}");
    }
    for (line, column) in [(1, 8), (1, 13), (2, 10), (2, 22)] {
        let found = editor.at("textDocument/hover", line, column);
        let text = found["contents"]["value"].as_str().unwrap_or_default();
        assert!(!text.starts_with("```\ntop") && !text.starts_with("```\nevery"), "a name of the script's: {found}");
    }
}

#[test]
fn a_script_gets_its_form_unless_it_has_a_mistake() {
    let mut editor = Editor::initialized();
    editor.open("BEGIN{@x=1;exit()}\n// é");
    let params = json!({"textDocument": {"uri": URI}, "options": {"tabSize": 8, "insertSpaces": false}});
    let edits = editor.ask("textDocument/formatting", &params)["result"].take();
    assert_eq!(edits[0]["newText"], "BEGIN\n{\n\t@x = 1;\n\texit()\n}\n// é\n");
    assert_eq!(edits[0]["range"]["end"], json!({"line": 1, "character": 4}));
    editor.change(2, "BEGIN { }\n");
    assert_eq!(editor.ask("textDocument/formatting", &params)["result"], json!([]));
    editor.change(3, "BEGIN { @x = ; }\n");
    assert_eq!(editor.ask("textDocument/formatting", &params)["result"], Value::Null);
}

#[test]
fn garbage_gets_errors_and_the_server_goes_on() {
    let mut editor = Editor::new();
    let error = |reply: &Value| reply["error"]["code"].as_i64();
    assert_eq!(error(&editor.ask("textDocument/hover", &json!({}))), Some(-32002));
    editor.ask("initialize", &json!({}));
    editor.send(b"\0\xff\xfe garbage\r\n\r\nContent-Length: 5\r\n\r\n{{{{{");
    assert_eq!(error(&editor.receive()), Some(-32700));
    editor.send(b"Content-Length: 2\r\n\r\n[]Content-Length: 4\r\n\r\nnull");
    assert_eq!((error(&editor.receive()), error(&editor.receive())), (Some(-32600), Some(-32600)));
    for (method, params, code) in [
        ("initialize", json!({}), -32600),
        ("workspace/frobnicate", json!({}), -32601),
        ("textDocument/hover", json!([1, 2]), -32602),
        ("textDocument/hover", json!({"textDocument": {"uri": "file:///never/opened"}}), -32602),
        ("textDocument/formatting", Value::Null, -32602),
    ] {
        assert_eq!(error(&editor.ask(method, &params)), Some(code), "{method} {params}");
    }
    editor.tell("textDocument/didOpen", &json!({"textDocument": {"uri": URI, "text": 5}}));
    editor.tell("textDocument/didChange", &json!({"textDocument": {"uri": URI}, "contentChanges": "all"}));
    editor.tell("$/whatever", &json!(7));
    let shown = editor.open("BEGIN { \u{0} \u{7f} 😀");
    assert_eq!(shown["params"]["diagnostics"][0]["severity"], 1);
    for (line, character) in [(0, 0), (0, 9), (0, 4_000_000_000), (4_000_000_000, 1)] {
        editor.at("textDocument/hover", line, character);
        editor.at("textDocument/completion", line, character);
    }
    assert_eq!(editor.end(), Some(1), "the input ended without a shutdown");
}

#[test]
fn check_writes_one_json_document() {
    let check = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_profiler"));
        let output = command.args(["check", "--json"]).args(arguments).stdin(Stdio::null()).output().expect("it runs");
        assert!(output.stderr.is_empty());
        (output.status.code(), serde_json::from_slice::<Value>(&output.stdout).expect("JSON")["data"].take())
    };
    let (code, right) = check(&["-e", "BEGIN { }"]);
    assert_eq!((code, right), (Some(0), json!({"file": "-e", "diagnostics": []})));
    let (code, wrong) = check(&["-e", "BEGIN { printf(\"😀\"); @x = cuont(); }"]);
    let found = &wrong["diagnostics"][0];
    assert_eq!((code, &found["code"], &found["severity"]), (Some(1), &json!("E0203"), &json!("error")));
    assert_eq!(found["start"], json!({"line": 1, "column": 27, "byte": 29}));
    assert_eq!(found["end"], json!({"line": 1, "column": 32, "byte": 34}));
    let (code, missing) = check(&["/no/such.prof"]);
    assert_eq!((code, &missing["diagnostics"][0]["code"]), (Some(1), &json!("E0001")));
    assert_eq!(missing["diagnostics"][0]["start"], Value::Null);
}
