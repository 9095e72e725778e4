" Scripts of profiler and bpftrace. The lines that list words come from the compiler's catalogue; see the README.
if exists('b:current_syntax')
  finish
endif

syn keyword profilerKeyword args break continue else for if let offsetof return sizeof typeof unless unroll while
syn match profilerItem "^\s*\%(pub\s\+\)\?\%(param\|span\|state\|view\|use\|macro\|import\|config\)\>\ze\%(\s\+[A-Za-z_"]\|\s*=\)"
syn keyword profilerType struct union enum typedef const unsigned signed char short int long void
syn keyword profilerType string bool inet buffer size_t ssize_t uintptr_t pid_t uid_t gid_t dev_t loff_t
syn match profilerType "\<\%(u\?int\%(8\|16\|32\|64\)\%(_t\)\?\|[us]\%(8\|16\|32\|64\)\)\>"
syn keyword profilerBoolean true false
syn keyword profilerBuiltin ustack username usermode uid tid syscall state sarg9 sarg8 sarg7 sarg6 sarg5 sarg4 sarg3 sarg2 sarg1 sarg0 retval rand probetype probe ppid pid pcomm numaid nsecs ncpus leader_tid leader_comm kstack jiffies has_cpid gid func elapsed dw_ustack curtask ctx cpu cpid config comm cgroup arg9 arg8 arg7 arg6 arg5 arg4 arg3 arg2 arg11 arg10 arg1 arg0
syn match profilerFunction "\<\%(zero\|write_user\|warnf\|usym\|ustack\|user_reg\|uptr\|unwatch\|uaddr\|typeinfo\|time\|system\|syscall_name\|strstr\|strncmp\|strlen\|strftime\|strerror\|strcontains\|strcap\|str_concat\|str\|static_assert\|socket_cookie\|skboutput\|signal_thread\|signal_name\|signal\|reg\|pton\|printf\|print\|percpu_kaddr\|percentile\|path\|p99\|p90\|p50\|override\|ntop\|memcmp\|macaddr\|len\|ksym\|kstack\|kptr\|kfunc_exist\|kfunc_allowed\|kaddr\|join\|is_unsigned_integer\|is_str\|is_ptr\|is_literal\|is_integer\|is_err\|is_array\|inflight\|has_key\|getopt\|flame\|find\|fail\|exit\|exec\|exchange\|errorf\|dw_ustack\|delete\|default_str_length\|debugf\|container_of\|comm\|clear\|cgroupid\|cgroup_path\|cat\|buf\|bswap\|assert_str\|assert\)\ze\s*("
syn keyword profilerAggregation tseries sum stats min max lhist hist dist count avg
syn match profilerField "\%(\.\|->\)\@2<=\h\w*"
syn match profilerNumber "\<\%(0x[0-9A-Fa-f_]\+\|\d[0-9_]*\%(e\d\+\)\?\%(ns\|us\|ms\|s\|m\|h\|d\)\?[uUlL]*\)\>"
syn match profilerVariable "\$\%(\h\w*\|\d\+\|#\)"
syn match profilerMap "@\w*"
syn match profilerProbe "\<\%(watchpoint\|wall\|w\|usdt\|uretprobe\|ur\|uprobe\|u\|tracepoint\|test\|t\|software\|self\|s\|rt\|rawtracepoint\|profile\|p\|kretprobe\|kretfunc\|kr\|kprobe\|kfunc\|k\|iter\|it\|interval\|i\|hardware\|h\|fr\|fn\|fexit\|fentry\|f\|end\|bench\|begin\|U\|END\|BEGIN\)\%(\%(:[^ \t,{]*\)\+\|\>\ze\s*[,{]\|\>\s*$\)"
syn match profilerDirective "^\s*#.*$"
syn match profilerEscape contained "\\\%(\o\{1,3}\|x\x\{1,2}\|.\)"
syn match profilerFormat contained "%[-+ #0]*\d*\%(\.\d\+\)\?\%(hh\?\|ll\?\|j\|z\|t\)\?\%(r[xh]\?\|gr\|[a-zA-Z%]\)"
syn region profilerString start=+"+ skip=+\\.+ end=+"+ end=+$+ contains=profilerEscape,profilerFormat
syn region profilerComment start="/\*" end="\*/" contains=@Spell
syn match profilerComment "//.*$" contains=@Spell

hi def link profilerKeyword Statement
hi def link profilerItem Keyword
hi def link profilerType Type
hi def link profilerBoolean Boolean
hi def link profilerBuiltin Identifier
hi def link profilerFunction Function
hi def link profilerAggregation Function
hi def link profilerField None
hi def link profilerNumber Number
hi def link profilerVariable Identifier
hi def link profilerMap Special
hi def link profilerProbe Label
hi def link profilerDirective PreProc
hi def link profilerEscape SpecialChar
hi def link profilerFormat SpecialChar
hi def link profilerString String
hi def link profilerComment Comment

let b:current_syntax = 'profiler'
