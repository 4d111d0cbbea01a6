//! Applications: programs whose sockets network stack modules serve.

use netkernel::protocol::{Status, Token};

use super::Node;
use super::resource::{Resource, changed};
use crate::error::{Error, Fault, Kind, Result};
use crate::host::Usage;
use crate::model::{
    Admission, Admitted, Application, ApplicationRecord, ApplicationStatus, Event, Happened,
    NsmRecord, Object, Socket, SocketTrace, State, Topic, check_name,
};

impl Resource for Application {
    fn all(node: &mut Node) -> Result<Vec<Object<Application>>> {
        let all = node.store.all::<ApplicationRecord>()?.into_iter();
        let status = node.host.core_status().unwrap_or_default();
        Ok(all.map(|it| node.view_application(it, &status)).collect())
    }

    fn one(node: &mut Node, name: &str) -> Result<Object<Application>> {
        let found = node.find_application(name)?;
        let status = node.host.core_status().unwrap_or_default();
        Ok(node.view_application(found, &status))
    }

    fn change(node: &mut Node, name: &str, spec: Application) -> Result<()> {
        node.change_application(name, spec)
    }

    fn note_of_change(node: &mut Node, name: &str, spec: &Application) -> Option<String> {
        let was = node.find_application(name).ok()?.spec.nsm;
        let moved = was != spec.nsm;
        moved.then(|| format!("new sockets go to NSM ‘{}’, no longer to ‘{was}’", spec.nsm))
    }

    fn delete(node: &mut Node, name: &str) -> Result<()> {
        node.delete_application(name)
    }
}

impl Node {
    fn view_application(&self, it: ApplicationRecord, status: &Status) -> Object<Application> {
        let of = status.tenants.iter().find(|tenant| tenant.name == it.name);
        let of = of.cloned().unwrap_or_default();
        let reason = self.reason_of(&it);
        let status = ApplicationStatus {
            state: match reason {
                None => State::Up,
                Some(_) => State::Down,
            },
            reason,
            restarts: self.application_restarts.count(it.id),
            pid: it.pid,
            processes: of.processes,
            sockets: of.sockets,
            sent: of.sent,
            received: of.received,
            connections: of.connections,
            refused: of.refused,
            cpu_s: Usage::of(it.pid)
                .filter(|_| it.runs())
                .map(|usage| (usage.cpu + usage.children).as_secs_f64()),
            violations: of.violations,
        };
        Object {
            name: it.name,
            spec: it.spec,
            status,
        }
    }

    pub(super) fn find_application(&self, name: &str) -> Result<ApplicationRecord> {
        let found = self.store.get::<ApplicationRecord>(name)?;
        Ok(found.ok_or_else(|| Fault::NoApplication { name: name.into() })?)
    }

    pub(super) fn check_application(&self, spec: &Application) -> Result<()> {
        spec.properties.check()?;
        match self.store.get::<NsmRecord>(&spec.nsm)? {
            Some(_) => Ok(()),
            None => Err(Fault::NoNsmFor {
                nsm: spec.nsm.clone(),
            }
            .into()),
        }
    }

    /// Has a program be an application.
    pub fn admit(&mut self, admission: Admission) -> Result<Admitted> {
        let token = self.add_application(admission, false)?;
        let paths = self.paths.sock();
        Ok(Admitted {
            sock: paths.sock_of(token),
            library: paths.library,
        })
    }

    /// Has a guest, which is to run in this process, be an application of its name.
    pub(super) fn admit_guest(
        &mut self,
        guest: &str,
        nsm: &str,
        pid: u32,
    ) -> Result<netkernel::guest::Guest> {
        let status = self.host.core_status()?;
        if !status.nsms.iter().any(|it| it.name == nsm && it.present) {
            let missing = format_args!("NSM ‘{nsm}’, which is to serve its sockets, does not run");
            return Err(Error::new(Kind::Unavailable, missing));
        }
        let former = self.store.get::<ApplicationRecord>(guest)?;
        if former.is_some_and(|it| it.guest) {
            // The guest's last run, whose process may not have ended yet.
            self.drop_application(guest, false)?;
        }
        let admission = Admission {
            name: guest.into(),
            nsm: nsm.into(),
            pid,
            ..Admission::default()
        };
        let token = self.add_application(admission, true)?;
        self.host.join_guest(token)
    }

    fn add_application(&mut self, admission: Admission, guest: bool) -> Result<Token> {
        let Admission {
            name,
            nsm,
            properties,
            pid,
        } = admission;
        check_name("application", &name)?;
        let spec = Application {
            nsm,
            properties,
            ..Application::default()
        };
        self.check_application(&spec)?;
        self.check_no_application(&name)?;
        let application = ApplicationRecord {
            name,
            spec,
            id: 0,
            token: Token::random().map_err(Error::failed)?,
            pid,
            guest,
            started: vmm::started(pid),
            ended: None,
        };
        self.host.add_application(&application)?;
        if let Err(error) = self.store.put(&application) {
            let _ = self.host.end_application(&application.name, false);
            return Err(error.into());
        }
        let name = &application.name;
        self.tell(Event::of(Topic::Application, name, Happened::Started));
        Ok(application.token)
    }

    /// Refuses a name that an application has. One that has ended gives it up.
    pub(super) fn check_no_application(&mut self, name: &str) -> Result<()> {
        match self.store.get::<ApplicationRecord>(name)? {
            Some(it) => {
                let ended = !self.ended(vec![it]).is_empty();
                match ended && self.drop_application(name, true).is_ok() {
                    true => Ok(()),
                    false => Err(Fault::ApplicationExists { name: name.into() }.into()),
                }
            }
            None => Ok(()),
        }
    }

    pub(super) fn change_application(&mut self, name: &str, spec: Application) -> Result<()> {
        let was = self.find_application(name)?;
        if !was.spec.can_become(&spec) {
            return Err(Fault::Fixed {
                what: "application",
                name: name.into(),
                can: "`nsm`, `properties` and `restart`",
                field: changed(&was.spec, &spec),
            }
            .into());
        }
        self.check_application(&spec)?;
        let is = ApplicationRecord {
            spec,
            ..was.clone()
        };
        self.host.change_application(&is)?;
        if let Err(error) = self.store.put(&is) {
            let _ = self.host.change_application(&was);
            return Err(error.into());
        }
        Ok(())
    }

    /// The sockets of an application.
    pub fn sockets(&mut self, name: &str) -> Result<Vec<Socket>> {
        self.find_application(name)?;
        let sockets = self.host.sockets_of(name)?;
        Ok(sockets.into_iter().map(Socket::from).collect())
    }

    /// What the sockets of an application did since the record of this number.
    pub fn trace(&mut self, name: &str, after: u64) -> Result<SocketTrace> {
        self.find_application(name)?;
        Ok(self.host.trace_of(name, after)?.into())
    }

    /// Removes an application, be it only an `idle` one: an error if it is not.
    pub(super) fn drop_application(&mut self, name: &str, idle: bool) -> Result<()> {
        self.host.end_application(name, idle)?;
        self.store.with_spare(|| -> Result<()> {
            let change = self.store.change()?;
            change.remove::<ApplicationRecord>(name)?;
            Ok(change.commit()?)
        })
    }

    /// Has CoreEngine know all applications.
    pub(super) fn bring_applications(&mut self) -> Result<()> {
        for application in self.store.all::<ApplicationRecord>()? {
            if let Err(error) = self.host.add_application(&application) {
                tracing::warn!("application ‘{}’: {error}", application.name);
            }
            if application.is_run() {
                self.bring_program(&application);
            }
        }
        Ok(())
    }

    /// Those of applications that the node does not run and of which no process is left, but such as CoreEngine knows.
    fn ended(&self, mut all: Vec<ApplicationRecord>) -> Vec<ApplicationRecord> {
        all.retain(|it| !it.is_run() && !it.runs());
        if all.is_empty() {
            return all;
        }
        let status = self.host.core_status().unwrap_or_default();
        all.retain(|it| {
            let mut known = status.tenants.iter();
            !known.any(|of| of.name == it.name && of.processes + of.sockets > 0)
        });
        self.host.without_processes(all)
    }

    /// Removes the applications that have ended: no process and no socket of theirs is left.
    pub(super) fn drop_ended_applications(&mut self) -> Result<()> {
        let all = self.store.all::<ApplicationRecord>()?;
        for it in self.ended(all) {
            match self.drop_application(&it.name, true) {
                Ok(()) => self.tell(Event::of(Topic::Application, &it.name, Happened::Ended)),
                Err(error) if error.kind == Kind::Refused => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
