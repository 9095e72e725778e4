//! State of the language server and message dispatch.
//!
//! In: messages. Out: replies, and diagnostics of changed scripts.
//! Guarantee: each request gets exactly one reply, a notification none; no files are read except
//! imports of scripts, and none are written.

use std::collections::BTreeMap;

use profiler_runtime::host::Host;
use serde_json::{Value, json};

use super::answers;

/// The text is not JSON.
pub(super) const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;
const NOT_INITIALIZED: i32 = -32002;

/// State of the protocol session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    New,
    Open,
    ShutDown,
    Ended { in_order: bool },
}

/// An open script.
pub(super) struct Document {
    pub text: String,
    /// The editor's version number of the text.
    version: Value,
    /// Whether its published diagnostics are outdated.
    changed: bool,
}

/// The language server.
pub(super) struct Server {
    host: Host,
    stage: Stage,
    documents: BTreeMap<String, Document>,
    /// Closed scripts whose diagnostics are still shown.
    closed: Vec<String>,
}

/// An error reply.
pub(super) fn failed(id: &Value, code: i32, words: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": words}})
}

impl Server {
    /// A server without open documents.
    pub(super) fn new() -> Server {
        Server { host: Host::for_checking(), stage: Stage::New, documents: BTreeMap::new(), closed: Vec::new() }
    }

    /// Whether the editor has sent `exit`.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.stage, Stage::Ended { .. })
    }

    /// Whether `shutdown` was received, before any `exit`.
    pub(super) fn was_shut_down(&self) -> bool {
        matches!(self.stage, Stage::ShutDown | Stage::Ended { in_order: true })
    }

    /// Handles a message; returns the reply to a request.
    pub(super) fn take(&mut self, message: &Value) -> Option<Value> {
        let id = message.get("id").filter(|id| id.is_string() || id.is_number());
        let Some(method) = message.get("method").and_then(Value::as_str) else {
            let is_reply = message.get("result").is_some() || message.get("error").is_some();
            let words = "this is neither a request nor a notification";
            return (!is_reply).then(|| failed(id.unwrap_or(&Value::Null), INVALID_REQUEST, words));
        };
        let nothing = Value::Null;
        let params = message.get("params").unwrap_or(&nothing);
        let Some(id) = id else {
            self.notice(method, params);
            return None;
        };
        Some(match self.answer(method, params) {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err((code, words)) => failed(id, code, &words),
        })
    }

    /// The diagnostics of changed scripts, as notifications.
    pub(super) fn diagnose(&mut self) -> Vec<Value> {
        let publish =
            |params: Value| json!({"jsonrpc": "2.0", "method": "textDocument/publishDiagnostics", "params": params});
        let mut messages: Vec<Value> =
            self.closed.drain(..).map(|uri| publish(json!({"uri": uri, "diagnostics": []}))).collect();
        for (uri, document) in self.documents.iter_mut().filter(|(_, document)| document.changed) {
            document.changed = false;
            let found = answers::diagnostics(uri, &document.text, &self.host);
            messages.push(publish(json!({"uri": uri, "version": document.version, "diagnostics": found})));
        }
        messages
    }

    fn notice(&mut self, method: &str, params: &Value) {
        if method == "exit" {
            self.stage = Stage::Ended { in_order: self.stage == Stage::ShutDown };
        }
        let Some(uri) =
            params.pointer("/textDocument/uri").and_then(Value::as_str).filter(|_| self.stage == Stage::Open)
        else {
            return;
        };
        let version = params.pointer("/textDocument/version").cloned().unwrap_or_default();
        let text = match method {
            "textDocument/didOpen" => params.pointer("/textDocument/text"),
            // Each change is the whole text, as negotiated; only the last one counts.
            "textDocument/didChange" => {
                let changes = params.get("contentChanges").and_then(Value::as_array);
                changes.and_then(|changes| changes.last()?.get("text"))
            }
            "textDocument/didClose" => {
                self.documents.remove(uri);
                self.closed.push(uri.to_owned());
                return;
            }
            _ => return,
        };
        if let Some(text) = text.and_then(Value::as_str) {
            let document = Document { text: text.to_owned(), version, changed: true };
            self.documents.insert(uri.to_owned(), document);
        }
    }

    fn answer(&mut self, method: &str, params: &Value) -> Result<Value, (i32, String)> {
        match (self.stage, method) {
            (Stage::New, "initialize") => {
                self.stage = Stage::Open;
                return Ok(capabilities());
            }
            (Stage::New, _) => return Err((NOT_INITIALIZED, "`initialize` comes first".into())),
            (Stage::Open, "shutdown") => {
                self.stage = Stage::ShutDown;
                return Ok(Value::Null);
            }
            (Stage::Open, "initialize") => return Err((INVALID_REQUEST, "the server is initialized".into())),
            (Stage::Open, _) => {}
            _ => return Err((INVALID_REQUEST, "the server was shut down".into())),
        }
        let known = ["textDocument/completion", "textDocument/hover", "textDocument/formatting"];
        if !known.contains(&method) {
            return Err((METHOD_NOT_FOUND, format!("there is no method `{method}`")));
        }
        let invalid = |words: &str| (INVALID_PARAMS, words.to_owned());
        let uri = params.pointer("/textDocument/uri").and_then(Value::as_str).ok_or_else(|| invalid("no document"))?;
        let document = self.documents.get(uri).ok_or_else(|| invalid("the document is not open"))?;
        if method == "textDocument/formatting" {
            return Ok(answers::formatting(&document.text));
        }
        let number = |path: &str| params.pointer(path).and_then(Value::as_u64).map(|number| number as usize);
        let (line, column) =
            number("/position/line").zip(number("/position/character")).ok_or_else(|| invalid("no position"))?;
        Ok(match method {
            "textDocument/completion" => answers::completion(&document.text, line, column, &self.host),
            _ => answers::hover(uri, &document.text, line, column, &self.host),
        })
    }
}

/// The server's capabilities.
fn capabilities() -> Value {
    json!({
        "capabilities": {
            "positionEncoding": "utf-16",
            // Full-text synchronization.
            "textDocumentSync": {"openClose": true, "change": 1},
            "completionProvider": {"triggerCharacters": [".", ">", ":", "@", "$", "/", "\""]},
            "hoverProvider": true,
            "documentFormattingProvider": true,
        },
        "serverInfo": {"name": "profiler", "version": env!("CARGO_PKG_VERSION")},
    })
}
