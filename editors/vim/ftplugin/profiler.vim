" Scripts of profiler and bpftrace.
if exists('b:did_ftplugin')
  finish
endif
let b:did_ftplugin = 1

setlocal commentstring=//\ %s
setlocal comments=s1:/*,mb:*,ex:*/,://
setlocal noexpandtab cindent cinoptions=(1s,m1
setlocal formatprg=profiler\ fmt\ -

let b:undo_ftplugin = 'setlocal commentstring< comments< expandtab< cindent< cinoptions< formatprg<'
