# Turns a JUnit report of cargo-nextest into lines.
# In: junit.xml with the output of all tests (`store-success-output`).
# Out: one line per test, separated by tabs: verdict, binary, test, seconds, reason. The verdict is
# `ok`, `partly` (some of its cases cannot run here), `skipped` or `FAILED`. The reason is what the
# first line `SKIPPED: …` or `PARTLY SKIPPED: …` of the test's output says.
# Guarantee: each <testcase> gives exactly one line.
function attribute(line, name,    text) {
    text = line
    if (!sub(".* " name "=\"", "", text)) return ""
    sub(/".*/, "", text)
    return plain(text)
}
function plain(text) {
    gsub(/&lt;/, "<", text); gsub(/&gt;/, ">", text); gsub(/&quot;/, "\"", text); gsub(/&apos;|&#39;/, "'", text)
    gsub(/&amp;/, "\\&", text)
    gsub(/\t/, " ", text)
    return text
}
function finish() {
    if (test != "") printf "%s\t%s\t%s\t%s\t%s\n", verdict, binary, test, seconds, reason
    test = ""
}
BEGIN { OFS = "\t" }
/^ *<testcase / {
    finish()
    test = attribute($0, "name"); binary = attribute($0, "classname"); seconds = attribute($0, "time")
    verdict = "ok"; reason = ""
    if ($0 ~ /\/>$/) finish()
    next
}
/^ *<(failure|error)[ >]/ { verdict = "FAILED"; reason = "" }
# The output begins on the line of its element.
{ sub(/^ *<system-(out|err)>/, "") }
/^(PARTLY )?SKIPPED: / {
    if (verdict == "ok") { verdict = /^PARTLY/ ? "partly" : "skipped"; reason = plain($0); sub(/^(PARTLY )?SKIPPED: /, "", reason) }
}
# The test harness says so of a test with #[ignore].
/^ *<\/testcase>/ { finish() }
END { finish() }
