# Joins the results of the VMs of scripts/vm.
# In: tests/vm/exceptions, the plan, and the results of each kernel in the order of `kernels`. The
# assignments file=1, file=2 and so on precede these files, because any of them may be empty. `some`
# is not empty if only some tests were selected. `cut` names the kernels whose VM ended before its
# tests did.
# A result of a test replaces the one before it: `flaky` follows FAILED if a retry passed.
# Out: one line per test with one column per kernel; to the file `summary`, one line per suite, a line
# `FLAKY kernel test` for each flaky test, and a last line in cargo's format. The status is 1 if a test failed, is missing, or was skipped or
# declined without an exception, or if an exception is not needed.
function show(name, why,    i, line) {
    line = sprintf("%-72s", name)
    for (i = 1; i <= machines; i++) line = line sprintf("  %-8s", verdict[i, name])
    if (why != "") line = line "  " why
    sub(/ +$/, "", line)
    print line
}
# The line for a VM that was cut off: a test without a result was not run.
function cut_short(i,    t, unrun, due) {
    for (t = 1; t <= tests; t++) if (is_for(i, order[t])) { due++; unrun += got[i, order[t]] == "" }
    return sprintf("Linux %s ended before its tests did: %d of %d were not run", kernel[i], unrun, due)
}
# Whether the plan includes the test `name` for kernel `i`.
function is_for(i, name) { return !(name in one) || one[name] == kernel[i] }
function suite_of(name) { sub(/::.*/, "", name); return name }

file == 1 {
    if ($0 ~ /^#/ || NF == 0) next
    split($0, word, / +/)
    exception[word[1], word[2]] = 1
    listed[++exceptions] = word[1] SUBSEP word[2]
    next
}
file == 2 { order[++tests] = $2; planned[$2] = 1; if ($6 != "") one[$2] = $6; next }
{ got[file - 2, $2] = $1; reason[file - 2, $2] = $4 }

END {
    machines = split(kernels, kernel, " ")
    split(cut, word, " ")
    for (i in word) is_cut[word[i]] = 1
    for (i = 1; i <= machines; i++) verdict[i, "test"] = kernel[i]
    show("test")
    for (t = 1; t <= tests; t++) {
        name = order[t]
        some_ok = 0
        for (i = 1; i <= machines; i++) some_ok = some_ok || got[i, name] == "ok" || got[i, name] == "flaky"
        why = ""
        for (i = 1; i <= machines; i++) {
            if (!is_for(i, name)) { verdict[i, name] = "-"; continue }
            v = got[i, name]
            if (v == "") v = kernel[i] in is_cut ? "unrun" : "MISSING"
            may = (kernel[i], name) in exception
            # A script declined on one kernel but accepted on another is as suspicious as a skipped
            # test.
            if ((v == "skipped" || (v == "declined" && some_ok)) && !may) {
                v = toupper(v)
                why = why kernel[i] ": " (reason[i, name] ? reason[i, name] : "another kernel takes it") ", and no exception; "
            } else if (v == "skipped") {
                why = why kernel[i] ": " reason[i, name] "; "
            }
            if (v == "flaky") flaky = flaky "FLAKY Linux " kernel[i] " " name "\n"
            if (may && (v == "skipped" || v == "declined")) needed[kernel[i], name] = 1
            verdict[i, name] = v
            sum[i, v]++
            of_suite[i, suite_of(name), v]++
        }
        if (!((s = suite_of(name)) in known)) { known[s] = 1; suites[++suite_count] = s }
        sub(/; $/, "", why)
        show(name, why)
    }
    for (i = 1; i <= machines; i++)
        if (kernel[i] in is_cut) { print cut_short(i); stale++ }
    for (e = 1; e <= exceptions; e++) {
        split(listed[e], word, SUBSEP)
        for (i = 1; i <= machines; i++)
            if (kernel[i] == word[1] && is_for(i, word[2]) && !(kernel[i] in is_cut) && !(listed[e] in needed) && (some == "" || word[2] in planned)) {
                print word[2] ": the exception for " word[1] " is not needed: remove it from tests/vm/exceptions"
                stale++
            }
    }
    line = sprintf("%-24s", "suite")
    for (i = 1; i <= machines; i++) line = line sprintf("  %-44s", kernel[i])
    sub(/ +$/, "", line)
    print line > summary
    split("ok flaky declined skipped FAILED MISSING SKIPPED DECLINED unrun", verdicts, " ")
    for (s = 1; s <= suite_count; s++) {
        line = sprintf("%-24s", suites[s])
        for (i = 1; i <= machines; i++) {
            cell = ""
            for (v = 1; v <= 9; v++)
                if (n = of_suite[i, suites[s], verdicts[v]]) cell = cell (cell == "" ? "" : ", ") n " " verdicts[v]
            line = line sprintf("  %-44s", cell)
        }
        sub(/ +$/, "", line)
        print line > summary
    }
    for (i = 1; i <= machines; i++) {
        good += sum[i, "ok"] + sum[i, "flaky"] + sum[i, "declined"]
        unable += sum[i, "skipped"]
        bad += sum[i, "FAILED"] + sum[i, "MISSING"] + sum[i, "SKIPPED"] + sum[i, "DECLINED"]
    }
    bad += stale
    printf "%s", flaky > summary
    printf "\ntest result: %s. %d passed; %d failed; %d ignored; %d kernels, %d tests\n", bad ? "FAILED" : "ok", good, bad, unable, machines, tests > summary
    exit bad > 0
}
