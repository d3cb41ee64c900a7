//! `/v1/admin/nodes`: the processes that share the database.

use axum::Json as Answer;
use axum::extract::State;
use hark_api::{DateTime, NodeList};
use hark_store::Node;

use super::Admin;
use crate::app::App;
use crate::error::Failure;
use crate::nodes::RESPONDING;
use crate::routes::{AnyError, Forbidden, Unauthorized};

/// The processes of the service
///
/// All that share the database, each with what it said of itself in the last seconds.
#[utoipa::path(get, path = "/v1/admin/nodes", tag = "administration", operation_id = "adminNodes",
    responses((status = 200, body = NodeList), Unauthorized, Forbidden, AnyError), security(("bearer" = []), ("session" = [])))]
pub(crate) async fn list(State(app): State<App>, _: Admin) -> Result<Answer<NodeList>, Failure> {
    let nodes = app.store.nodes().list().await?;
    Ok(Answer(NodeList { nodes: nodes.into_iter().map(|node| wire_node(&app, node)).collect() }))
}

fn wire_node(app: &App, node: Node) -> hark_api::Node {
    let said = node.heartbeat;
    hark_api::Node {
        is_current: said.id == app.node,
        is_responding: node.silent_for < RESPONDING,
        started_at: DateTime(said.started_at),
        last_seen: DateTime(node.seen_at),
        // A state that this version can't read is that of a later one: the process is listed all the same.
        state: serde_json::from_str(&said.state).unwrap_or_default(),
        id: said.id,
        host: said.host,
        address: said.address,
        version: said.version,
        role: said.role,
    }
}
