//! Programs of applications that the node runs: started, restarted, ended; what they print.

use std::time::Instant;

use netkernel::protocol::Token;
use rustix::process::WaitIdStatus;

use super::Node;
use crate::error::{Error, Kind, Result, Subject};
use crate::host::told_end;
use crate::model::{
    Application, ApplicationRecord, Ended, Event, Happened, Restart, Topic, check_name,
};

impl Node {
    /// Makes an application and starts its program, whose NSM serves.
    pub(super) fn create_application(&mut self, name: &str, spec: Application) -> Result<()> {
        check_name("application", name)?;
        spec.check_run()?;
        self.check_application(&spec)?;
        self.check_no_application(name)?;
        let change = self.store.change()?;
        let mut application = ApplicationRecord {
            name: name.into(),
            spec,
            id: change.next("application")?,
            token: Token::random().map_err(Error::failed)?,
            pid: 0,
            guest: false,
            started: None,
            ended: None,
        };
        self.host.add_application(&application)?;
        let started = self.host.start_application(&application);
        let kept = started.and_then(|pid| {
            application.note_start(pid);
            change.put(&application)?;
            Ok(change.commit()?)
        });
        match &kept {
            Ok(()) => self.tell(Event::of(Topic::Application, name, Happened::Started)),
            Err(_) => {
                self.host.kill_application(name);
                let _ = self.host.end_application(name, false);
            }
        }
        kept
    }

    /// Why the program of an application does not run, if the node is to run it.
    pub(super) fn reason_of(&self, application: &ApplicationRecord) -> Option<String> {
        if !application.is_run() || self.host.runs_application(&application.name) {
            return None;
        }
        if let Some(ended) = &application.ended {
            return Some(ended.how.clone());
        }
        let fault = self
            .host
            .fault(&Subject::Application(application.name.clone()));
        Some(fault.unwrap_or("it starts").into())
    }

    /// Takes over the programs that an earlier node started. How a program ended that ended meanwhile is not known.
    pub(super) fn take_programs_over(&mut self) -> Result<()> {
        for it in self.store.all::<ApplicationRecord>()? {
            if !it.is_run() || it.ended.is_some() {
                continue;
            }
            if !it.runs() || self.host.adopt_application(&it).is_err() {
                self.program_ended(it, None);
            }
        }
        Ok(())
    }

    /// Starts the program of an application, if it is to run and does not.
    pub(super) fn bring_program(&mut self, application: &ApplicationRecord) {
        let name = &application.name;
        if application.ended.is_some()
            || self.host.runs_application(name)
            || self.ending_programs.contains(name)
            || self.application_restarts.is_waiting(application.id)
        {
            return;
        }
        let started = self.start_program(application);
        self.host.note(Subject::Application(name.clone()), started);
    }

    fn start_program(&mut self, application: &ApplicationRecord) -> Result<()> {
        let name = &application.name;
        let status = self.host.core_status()?;
        let mut nsms = status.nsms.iter();
        if !nsms.any(|nsm| nsm.name == application.nsm && nsm.present) {
            let reason = format_args!("NSM ‘{}’ does not serve yet", application.nsm);
            return Err(Error::new(Kind::Unavailable, reason));
        }
        let pid = self.host.start_application(application)?;
        let mut application = application.clone();
        application.note_start(pid);
        if let Err(error) = self.store.put(&application) {
            // The next node would not find it.
            self.host.kill_application(name);
            return Err(error.into());
        }
        let happened = match self.application_restarts.count(application.id) {
            0 => Happened::Started,
            _ => Happened::Restarted,
        };
        self.tell(Event::of(Topic::Application, name, happened));
        Ok(())
    }

    /// Restarts the programs whose time has come.
    pub(super) fn restart_programs(&mut self) {
        let due = self.application_restarts.take_due(Instant::now());
        if due.is_empty() {
            return;
        }
        // A state that cannot be read now can be later.
        let all = self.store.all::<ApplicationRecord>().unwrap_or_default();
        for it in all.iter().filter(|it| it.is_run() && due.contains(&it.id)) {
            self.bring_program(it);
        }
    }

    /// Deals with programs that have ended.
    pub(super) fn programs_ended(&mut self) {
        let ended = self.host.ended_applications();
        if !ended.is_empty() {
            self.log_programs();
        }
        for (name, pid, status) in ended {
            if self.ending_programs.contains(&name) {
                continue;
            }
            // A state that cannot be read now can be later: the next node restarts it.
            if let Ok(Some(it)) = self.store.get::<ApplicationRecord>(&name)
                && it.pid == pid
            {
                self.program_ended(it, status);
            }
        }
    }

    /// Restarts a program that ended, or notes how it ended.
    fn program_ended(&mut self, mut application: ApplicationRecord, status: Option<WaitIdStatus>) {
        let well = status.and_then(|status| status.exit_status()) == Some(0);
        let how = told_end(application.pid, status);
        let again = match application.restart {
            Restart::Always => true,
            Restart::OnFailure => !well,
            Restart::Never => false,
        };
        let happened = if well {
            Happened::Ended
        } else {
            Happened::Crashed
        };
        let event = Event::of(Topic::Application, &application.name, happened).because(&how);
        let subject = Subject::Application(application.name.clone());
        if again {
            let delay = self
                .application_restarts
                .schedule(application.id, Instant::now());
            let note = format_args!("it restarts in {} s", delay.as_secs_f64());
            self.tell(event.note(note));
            return self.host.note::<()>(subject, Err(Error::failed(how)));
        }
        let note = match application.restart {
            Restart::Never => "it is not restarted: its ‘restart’ is never",
            _ => "it is not restarted: it ended with code 0",
        };
        self.tell(event.note(note));
        application.ended = Some(Ended { well, how });
        // Of one that cannot be kept, the next node does not know how it ended.
        let kept = self.store.put(&application);
        self.host.note(subject, kept.map_err(Error::from));
    }

    /// Asks the program of an application to end, if the node runs it. It is not restarted.
    pub(crate) fn ask_program_to_end(&mut self, name: &str) -> Result<()> {
        if self.find_application(name)?.is_run() {
            self.ending_programs.insert(name.into());
            self.host.ask_application_to_end(name);
        }
        Ok(())
    }

    /// Whether a program runs that was asked to end.
    pub(crate) fn program_is_ending(&self, name: &str) -> bool {
        self.ending_programs.contains(name) && self.host.runs_application(name)
    }

    /// Removes an application. A program that the node runs is ended.
    pub(super) fn delete_application(&mut self, name: &str) -> Result<()> {
        let application = self.find_application(name)?;
        if application.is_run() {
            self.log_programs();
            self.host.kill_application(name);
            self.application_restarts.forget(application.id);
            self.host.clear_fault(&Subject::Application(name.into()));
        }
        self.ending_programs.remove(name);
        self.drop_application(name, false)
    }

    /// Puts what programs printed into the log.
    pub(super) fn log_programs(&mut self) {
        for (application, line) in self.host.application_lines() {
            tracing::info!(application, "application ‘{application}’: {line}");
        }
    }
}

impl ApplicationRecord {
    fn note_start(&mut self, pid: u32) {
        self.pid = pid;
        self.started = vmm::started(pid);
        self.ended = None;
    }
}
