//! Private cloud instances: nodes dedicated to an account.

use crate::Store;
use crate::clock::Micros;
use crate::db::args;
use crate::error::{Error, Result};
use crate::ids::{AccountId, InstanceId};

/// Private cloud instances of accounts.
#[derive(Debug, Clone, Copy)]
pub struct Instances<'a> {
    pub(crate) store: &'a Store,
}

/// A new instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewInstance {
    /// Its name.
    pub name: String,
    /// Where it runs.
    pub region: String,
    /// Its status.
    pub status: String,
    /// Its GPU.
    pub gpu: String,
    /// The address of its API.
    pub base_url: String,
}

/// A stored instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudInstance {
    /// Its id.
    pub id: InstanceId,
    /// Its properties.
    pub about: NewInstance,
    /// When it was recorded.
    pub created_at: Micros,
}

impl Instances<'_> {
    /// Records an instance of an account.
    pub async fn add(self, account: AccountId, new: &NewInstance) -> Result<InstanceId> {
        let mut tx = self.store.db().begin().await?;
        let row = tx
            .one(
                "INSERT INTO cloud_instances (account_id, name, region, status, gpu, base_url, created_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id",
                args![account, &new.name, &new.region, &new.status, &new.gpu, &new.base_url, self.store.now()],
            )
            .await?;
        tx.commit().await?;
        Ok(InstanceId(row.get("id")?))
    }

    /// The instances of an account, oldest first.
    pub async fn list(self, account: AccountId) -> Result<Vec<CloudInstance>> {
        let sql = "SELECT id, name, region, status, gpu, base_url, created_at FROM cloud_instances WHERE account_id = $1 ORDER BY id";
        let rows = self.store.db().all(sql, args![account]).await?;
        rows.iter()
            .map(|row| {
                Ok(CloudInstance {
                    id: InstanceId(row.get("id")?),
                    about: NewInstance {
                        name: row.get("name")?,
                        region: row.get("region")?,
                        status: row.get("status")?,
                        gpu: row.get("gpu")?,
                        base_url: row.get("base_url")?,
                    },
                    created_at: row.get("created_at")?,
                })
            })
            .collect()
    }

    /// Sets the status of an instance.
    pub async fn set_status(self, account: AccountId, id: InstanceId, status: &str) -> Result<()> {
        let sql = "UPDATE cloud_instances SET status = $1 WHERE id = $2 AND account_id = $3";
        match self.store.db().execute(sql, args![status, id, account]).await? {
            0 => Err(Error::NotFound("instance")),
            _ => Ok(()),
        }
    }

    /// Deletes an instance.
    pub async fn remove(self, account: AccountId, id: InstanceId) -> Result<()> {
        let sql = "DELETE FROM cloud_instances WHERE id = $1 AND account_id = $2";
        match self.store.db().execute(sql, args![id, account]).await? {
            0 => Err(Error::NotFound("instance")),
            _ => Ok(()),
        }
    }
}
