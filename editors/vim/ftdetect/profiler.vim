autocmd BufNewFile,BufRead *.prof,*.bt setfiletype profiler
autocmd BufNewFile,BufRead * if getline(1) =~# '^#!.*\<\%(profiler\|bpftrace\)\>' | setfiletype profiler | endif
