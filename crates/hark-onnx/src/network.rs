//! A network of an ONNX file.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ort::session::{NoSelectedOutputs, RunOptions, Session, SessionInputValue};
use ort::value::Outlet;

use crate::error::{OnnxError, reason};
use crate::runtime::Runtime;
use crate::tensor::{Kind, Tensor};

/// How often a pass asks whether it is cancelled.
const GLANCE: Duration = Duration::from_millis(20);

/// An input or an output of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// What numbers it holds; none for kinds that no network here uses.
    pub kind: Option<Kind>,
    /// Its dimensions; none for those that a caller chooses.
    pub shape: Vec<Option<usize>>,
}

impl Port {
    fn of(outlet: &Outlet) -> Self {
        let (kind, shape) = (outlet.dtype().tensor_type(), outlet.dtype().tensor_shape());
        Port {
            name: outlet.name().to_owned(),
            kind: kind.and_then(Kind::of),
            shape: shape.into_iter().flat_map(|shape| shape.iter()).map(|size| usize::try_from(*size).ok()).collect(),
        }
    }
}

/// A network, ready to run. One pass at a time: callers that share it take turns.
pub struct Network {
    session: Session,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    path: PathBuf,
}

impl Network {
    /// Loads an ONNX file to run on this many threads. External data lies in files beside it.
    pub fn load(runtime: &Runtime, path: &Path, threads: usize) -> Result<Self, OnnxError> {
        if !path.is_file() {
            return Err(OnnxError::Missing { path: path.to_owned() });
        }
        let unloadable = |why: String| OnnxError::Unloadable { path: path.to_owned(), why };
        let session = Session::builder(&runtime.environment)
            .and_then(|builder| Ok(builder.with_intra_threads(threads.max(1))?))
            // Threads that wait sleep: other models of the process need the cores.
            .and_then(|builder| Ok(builder.with_intra_op_spinning(false)?))
            .and_then(|mut builder| builder.commit_from_file(path))
            .map_err(|error| unloadable(reason(&error)))?;
        let ports = |outlets: &[Outlet]| outlets.iter().map(Port::of).collect();
        let (inputs, outputs) = (ports(session.inputs()), ports(session.outputs()));
        Ok(Network { session, inputs, outputs, path: path.to_owned() })
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its inputs.
    pub fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    /// Its outputs.
    pub fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    /// The input of a name, which must hold numbers of this kind in this many dimensions.
    pub fn input(&self, name: &str, kind: Kind, rank: usize) -> Result<&Port, OnnxError> {
        self.port("input", &self.inputs, name, kind, rank)
    }

    /// The output of a name, which must hold numbers of this kind in this many dimensions.
    pub fn output(&self, name: &str, kind: Kind, rank: usize) -> Result<&Port, OnnxError> {
        self.port("output", &self.outputs, name, kind, rank)
    }

    /// An error that says how this network differs from what is needed.
    pub fn unlike(&self, what: impl Into<String>) -> OnnxError {
        OnnxError::Unlike { path: self.path.clone(), what: what.into() }
    }

    fn port<'a>(
        &self,
        role: &str,
        ports: &'a [Port],
        name: &str,
        kind: Kind,
        rank: usize,
    ) -> Result<&'a Port, OnnxError> {
        let port = ports.iter().find(|port| port.name == name);
        let port = port.ok_or_else(|| self.unlike(format!("it has no {role} {name}")))?;
        if port.kind != Some(kind) {
            return Err(self.unlike(format!("its {role} {name} does not hold {kind}")));
        }
        if port.shape.len() != rank {
            let found = port.shape.len();
            return Err(self.unlike(format!("its {role} {name} has {found} dimensions, not {rank}")));
        }
        Ok(port)
    }

    /// Runs a pass; `is_cancelled` is asked several times a second.
    pub fn run(
        &mut self,
        inputs: &[(&str, &Tensor)],
        is_cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<Outputs, OnnxError> {
        if is_cancelled() {
            return Err(OnnxError::Cancelled);
        }
        let path = &self.path;
        let failed = |error: ort::Error| OnnxError::Failed { path: path.clone(), why: reason(&error) };
        let values: Vec<(Cow<'_, str>, SessionInputValue<'_>)> =
            inputs.iter().map(|(name, tensor)| (Cow::Borrowed(*name), (&tensor.0).into())).collect();
        let options = RunOptions::new().map_err(failed)?;
        let (is_over, was_cancelled) = (AtomicBool::new(false), AtomicBool::new(false));
        let session = &mut self.session;
        let done = std::thread::scope(|scope| {
            let watcher = scope.spawn(|| watch(&options, is_cancelled, &is_over, &was_cancelled));
            let done = session.run_with_options(values, &options).map(|mut outputs| {
                let names: Vec<String> = outputs.keys().map(str::to_owned).collect();
                names
                    .into_iter()
                    .filter_map(|name| Some((outputs.remove(&name).map(Tensor)?, name)))
                    .collect::<Vec<_>>()
            });
            is_over.store(true, Ordering::Release);
            watcher.thread().unpark();
            done
        });
        match done {
            Ok(tensors) => Ok(Outputs { tensors, path: path.clone() }),
            Err(_) if was_cancelled.load(Ordering::Acquire) => Err(OnnxError::Cancelled),
            Err(error) => Err(failed(error)),
        }
    }
}

/// Ends a pass once it is cancelled.
fn watch(
    options: &RunOptions<NoSelectedOutputs>,
    is_cancelled: &(dyn Fn() -> bool + Sync),
    is_over: &AtomicBool,
    was_cancelled: &AtomicBool,
) {
    while !is_over.load(Ordering::Acquire) {
        if is_cancelled() {
            was_cancelled.store(true, Ordering::Release);
            // A pass that can't be ended runs to its end, and its result is dropped.
            let _ = options.terminate();
            return;
        }
        std::thread::park_timeout(GLANCE);
    }
}

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Network").field("path", &self.path).finish_non_exhaustive()
    }
}

/// What a pass returned.
#[derive(Debug)]
pub struct Outputs {
    tensors: Vec<(Tensor, String)>,
    path: PathBuf,
}

impl Outputs {
    /// Takes the output of a name out.
    pub fn take(&mut self, name: &str) -> Result<Tensor, OnnxError> {
        match self.tensors.iter().position(|(_, one)| one == name) {
            Some(at) => Ok(self.tensors.swap_remove(at).0),
            None => Err(OnnxError::Unlike { path: self.path.clone(), what: format!("it returned no output {name}") }),
        }
    }
}
