# Joins what the machines of scripts/vm report. In: tests/vm/exceptions, the plan, and each kernel's results, in the order of
# `kernels`, with the assignments file=1, file=2 and so on before them, for any of them may be empty; `some` is not empty when
# only some tests were chosen. Out: a line a test, a column a kernel; to the file `summary`, a line a suite and one in the form
# of cargo's. The status is 1 when a test failed, or is missing, or was skipped or declined without an exception, or an exception
# is not needed.
function show(name, why,    i, line) {
    line = sprintf("%-72s", name)
    for (i = 1; i <= machines; i++) line = line sprintf("  %-8s", verdict[i, name])
    if (why != "") line = line "  " why
    sub(/ +$/, "", line)
    print line
}
function suite_of(name) { sub(/::.*/, "", name); return name }

file == 1 {
    if ($0 ~ /^#/ || NF == 0) next
    split($0, word, / +/)
    exception[word[1], word[2]] = 1
    listed[++exceptions] = word[1] SUBSEP word[2]
    next
}
file == 2 { order[++tests] = $2; planned[$2] = 1; next }
{ got[file - 2, $2] = $1; reason[file - 2, $2] = $4 }

END {
    machines = split(kernels, kernel, " ")
    for (i = 1; i <= machines; i++) verdict[i, "test"] = kernel[i]
    show("test")
    for (t = 1; t <= tests; t++) {
        name = order[t]
        some_ok = 0
        for (i = 1; i <= machines; i++) some_ok = some_ok || got[i, name] == "ok"
        why = ""
        for (i = 1; i <= machines; i++) {
            v = got[i, name]
            if (v == "") v = "MISSING"
            may = (kernel[i], name) in exception
            # What only one kernel's checker declines is as suspicious as a skipped test.
            if ((v == "skipped" || (v == "declined" && some_ok)) && !may) {
                v = toupper(v)
                why = why kernel[i] ": " (reason[i, name] ? reason[i, name] : "another kernel takes it") ", and no exception; "
            } else if (v == "skipped") {
                why = why kernel[i] ": " reason[i, name] "; "
            }
            if (may && (v == "skipped" || v == "declined")) needed[kernel[i], name] = 1
            verdict[i, name] = v
            sum[i, v]++
            of_suite[i, suite_of(name), v]++
        }
        if (!((s = suite_of(name)) in known)) { known[s] = 1; suites[++suite_count] = s }
        sub(/; $/, "", why)
        show(name, why)
    }
    for (e = 1; e <= exceptions; e++) {
        split(listed[e], word, SUBSEP)
        for (i = 1; i <= machines; i++)
            if (kernel[i] == word[1] && !(listed[e] in needed) && (some == "" || word[2] in planned)) {
                print word[2] ": the exception for " word[1] " is not needed: remove it from tests/vm/exceptions"
                stale++
            }
    }
    line = sprintf("%-24s", "suite")
    for (i = 1; i <= machines; i++) line = line sprintf("  %-44s", kernel[i])
    sub(/ +$/, "", line)
    print line > summary
    split("ok declined skipped FAILED MISSING SKIPPED DECLINED", verdicts, " ")
    for (s = 1; s <= suite_count; s++) {
        line = sprintf("%-24s", suites[s])
        for (i = 1; i <= machines; i++) {
            cell = ""
            for (v = 1; v <= 7; v++)
                if (n = of_suite[i, suites[s], verdicts[v]]) cell = cell (cell == "" ? "" : ", ") n " " verdicts[v]
            line = line sprintf("  %-44s", cell)
        }
        sub(/ +$/, "", line)
        print line > summary
    }
    for (i = 1; i <= machines; i++) {
        good += sum[i, "ok"] + sum[i, "declined"]
        unable += sum[i, "skipped"]
        bad += sum[i, "FAILED"] + sum[i, "MISSING"] + sum[i, "SKIPPED"] + sum[i, "DECLINED"]
    }
    bad += stale
    printf "\ntest result: %s. %d passed; %d failed; %d ignored; %d kernels, %d tests each\n", bad ? "FAILED" : "ok", good, bad, unable, machines, tests > summary
    exit bad > 0
}
