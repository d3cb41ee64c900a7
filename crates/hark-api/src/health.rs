//! `GET /health`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How the server is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok`, or `degraded` when something that requests need is missing; `draining` while it goes down.
    pub status: String,
    /// The version of Hark.
    pub version: String,
    /// What computes.
    pub gpu: GpuHealth,
    /// Whether a GPU computes.
    pub gpu_available: bool,
    /// What computes, by name; the processor where there is no GPU.
    pub gpu_name: String,
    /// Memory in MB of the GPUs that compute, together; 0 without one.
    #[schema(minimum = 0)]
    pub gpu_memory_mb: u64,
}

/// The engine as `/health` shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GpuHealth {
    /// `ok`, `cpu` where there is no GPU, or `unavailable` where no model can run here.
    pub status: String,
    /// Transcriptions that wait.
    #[schema(minimum = 0)]
    pub queue_length: u64,
    /// Free memory in MB of the GPUs that compute, together; 0 without one.
    #[schema(minimum = 0)]
    pub gpu_memory_free_mb: u64,
}

/// That the process runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Liveness {
    /// `alive`.
    pub status: String,
}

/// Whether the server takes requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Readiness {
    /// `ready` or `unready`.
    pub status: String,
    /// Each check by name (`database`, `integrity`, `disk`, `recordings`, `models`): `ok` or `failed`.
    pub checks: BTreeMap<String, String>,
}
