//! Defence against floods: TCP connections begin with a cookie, and sources have limits in constant memory.

crate::elements! {
    source_limiter: SourceLimiter;
    syn_proxy: SYNProxy;
}
