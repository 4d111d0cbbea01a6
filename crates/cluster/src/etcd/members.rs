//! The members of etcd, one by one: whether each listens, knows a leader, and has this host's time.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use node::error::{Error, Kind, Result};
use node::tls::{self, Side};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::{NO_QUORUM, Store};
use crate::context::Context;

/// Longest that a member may take to answer here.
const LIMIT: Duration = Duration::from_secs(1);
/// Longest answer that is read, in bytes.
const ANSWER_MAX: u64 = 16 << 10;
/// How far the clocks of hosts may be apart. Certificates and times that are shown depend on them; leases do not.
const CLOCK: Duration = Duration::from_secs(10);

/// A member, as it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// It knows a leader.
    Led,
    /// It runs and knows no leader.
    Leaderless,
    /// Nothing listens there: its host says so.
    Down,
    /// It cannot be reached.
    Unknown,
}

/// An endpoint's scheme, host and port.
fn parts(endpoint: &str) -> Option<(bool, &str, u16)> {
    let (scheme, rest) = endpoint.split_once("://")?;
    let is_tls = match scheme {
        "http" => false,
        "https" => true,
        _ => return None,
    };
    let (host, port) = rest.trim_end_matches('/').rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then_some((is_tls, host, port.parse().ok()?))
}

/// Refuses endpoints that are none, and TLS without certificates.
pub fn check(context: &Context) -> Result<()> {
    if context.etcd.is_empty() {
        return Err(Error::invalid("no address of etcd: name one by --etcd"));
    }
    for endpoint in &context.etcd {
        let Some((is_tls, _, _)) = parts(endpoint) else {
            return Err(Error::invalid(format_args!(
                "‘{endpoint}’ is no address of etcd: write http://HOST:PORT or https://HOST:PORT"
            )));
        };
        if is_tls && context.tls.is_none() {
            return Err(Error::invalid(format_args!(
                "{endpoint} speaks TLS: give this host's certificate by --tls-cert, --tls-key and --tls-ca"
            )));
        }
    }
    Ok(())
}

/// Asks one member by HTTP; the answer's head.
async fn ask(endpoint: &str, context: &Context) -> io::Result<String> {
    let unfit = || io::Error::other("this is no address");
    let (is_tls, host, port) = parts(endpoint).ok_or_else(unfit)?;
    let stream = TcpStream::connect((host, port)).await?;
    let files = context.tls.as_ref().filter(|_| is_tls);
    let Some(files) = files else {
        return exchange(stream, host).await;
    };
    let config = tls::client(files).map_err(io::Error::other)?;
    let name = ServerName::try_from(host.to_string()).map_err(io::Error::other)?;
    let connector = TlsConnector::from(Arc::clone(&config));
    exchange(connector.connect(name, stream).await?, host).await
}

async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    host: &str,
) -> io::Result<String> {
    let request = format!("GET /version HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    let read = stream.take(ANSWER_MAX).read_to_end(&mut answer).await;
    // Some sides end TLS without a word.
    if let Err(error) = read
        && answer.is_empty()
    {
        return Err(error);
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Refuses an etcd of which no member answers, and a clock that is off; says why. Returns which member answers.
pub async fn probe(context: &Context) -> Result<usize> {
    check(context)?;
    let mut last = None;
    for (number, endpoint) in context.etcd.iter().enumerate() {
        let unavailable =
            |why: String| Error::new(Kind::Unavailable, format_args!("etcd at {endpoint}: {why}"));
        match timeout(LIMIT * 2, ask(endpoint, context)).await {
            Ok(Ok(answer)) => return compare_clocks(endpoint, &answer).map(|()| number),
            Ok(Err(error)) => {
                let why = match tls::cause(&error) {
                    Some(cause) => tls::tls_sentence(Side::Etcd, cause),
                    None => format!("it does not answer ({error}): look whether it runs there"),
                };
                last = Some(unavailable(why));
            }
            Err(_) => {
                last = Some(unavailable(
                    "it does not answer within 2 s: look whether it runs there".into(),
                ));
            }
        }
    }
    last.map_or(Ok(0), Err)
}

fn compare_clocks(endpoint: &str, answer: &str) -> Result<()> {
    let head = answer.lines().take_while(|line| !line.is_empty());
    let mut dates = head.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_date = name.eq_ignore_ascii_case("date");
        is_date.then(|| httpdate::parse_http_date(value.trim()).ok())?
    });
    let Some(theirs) = dates.next() else {
        return Err(Error::invalid(format_args!(
            "{endpoint} is no etcd: what listens there does not answer as one"
        )));
    };
    let (ahead, apart) = match SystemTime::now().duration_since(theirs) {
        Ok(apart) => ("ahead of", apart),
        Err(error) => ("behind", error.duration()),
    };
    if apart > CLOCK {
        let apart = humantime::format_duration(Duration::from_secs(apart.as_secs()));
        return Err(Error::refused(format_args!(
            "this host's clock is {apart} {ahead} that of etcd at {endpoint}: set it, as by chrony"
        )));
    }
    Ok(())
}

/// How one member is.
async fn look(endpoint: &str, context: &Context) -> Member {
    let Some((_, host, port)) = parts(endpoint) else {
        return Member::Unknown;
    };
    match timeout(LIMIT, TcpStream::connect((host, port))).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => return Member::Down,
        _ => return Member::Unknown,
    }
    let leader = async {
        let store = Store::to(&[endpoint.to_string()], context).await?;
        store.leader().await
    };
    match timeout(LIMIT, leader).await {
        Ok(Ok(0)) => Member::Leaderless,
        Ok(Ok(_)) => Member::Led,
        Ok(Err(error)) if error.error.contains(NO_QUORUM) => Member::Leaderless,
        _ => Member::Unknown,
    }
}

/// How each member is.
pub async fn all(context: &Context) -> Vec<(String, Member)> {
    let looks = context.etcd.iter().map(|endpoint| {
        let (endpoint, context) = (endpoint.clone(), context.clone());
        tokio::spawn(async move {
            let member = look(&endpoint, &context).await;
            (endpoint, member)
        })
    });
    let mut members = Vec::new();
    for look in looks.collect::<Vec<_>>() {
        members.extend(look.await.ok());
    }
    members
}

/// Whether etcd certainly has no quorum: so many members are down or know no leader that the others are too few. Then
/// no lease ends, and no guest starts elsewhere. If this is so, the instant from which on a new quorum lets each lease
/// live for its full time.
pub async fn without_quorum(context: &Context) -> Option<Instant> {
    let start = Instant::now();
    let members = all(context).await;
    let quorum = members.len() / 2 + 1;
    let others = members
        .iter()
        .filter(|(_, member)| matches!(member, Member::Led | Member::Unknown));
    (others.count() < quorum).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_have_scheme_host_and_port() {
        assert_eq!(parts("http://a:2379"), Some((false, "a", 2379)));
        assert_eq!(parts("https://[::1]:2379/"), Some((true, "::1", 2379)));
        for wrong in ["a:2379", "ftp://a:1", "http://a", "http://:1", "http://a:x"] {
            assert_eq!(parts(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_clock_that_is_off_is_told() {
        let date = |ahead: i64| {
            let now = SystemTime::now();
            let then = match ahead {
                0.. => now + Duration::from_secs(ahead as u64),
                _ => now - Duration::from_secs(ahead.unsigned_abs()),
            };
            format!(
                "HTTP/1.1 200 OK\r\nDate: {}\r\n\r\n",
                httpdate::fmt_http_date(then)
            )
        };
        assert!(compare_clocks("http://e:1", &date(2)).is_ok());
        let error = compare_clocks("http://e:1", &date(7200)).unwrap_err().error;
        assert!(
            error.contains("behind that of etcd at http://e:1"),
            "{error}"
        );
        let error = compare_clocks("http://e:1", &date(-60)).unwrap_err().error;
        assert!(error.contains("ahead of"), "{error}");
        assert!(compare_clocks("http://e:1", "SSH-2.0").is_err());
    }
}
