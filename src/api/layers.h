// SPDX-License-Identifier: Apache-2.0
// Handlers of snapshots, rollback and fork, for the table in routes.c.
#pragma once
#include "api/server.h"

void post_snapshot(struct request *r);
void get_snapshots(struct request *r);
void get_snapshot(struct request *r);
void delete_snapshot(struct request *r);
void post_rollback(struct request *r);
void post_fork(struct request *r);
