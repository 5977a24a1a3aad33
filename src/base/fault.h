// SPDX-License-Identifier: Apache-2.0
// Fault points for tests: SKEP_FAULT=point[:fail|:kill][:N] makes the N-th pass of that point fail or kill the
// process there. Without the variable a point costs one comparison.
#pragma once
#include "base/err.h"
#include <stdbool.h>

#define FAULTS(X) \
	X(NURSERY_START, "nursery.start") \
	X(SLOT_CLONE, "slot.clone") \
	X(SLOT_MAP, "slot.map") \
	X(SLOT_CGROUP, "slot.cgroup") \
	X(SLOT_AGAIN, "slot.again") \
	X(CELL_PREPARE, "cell.prepare") \
	X(CELL_SOURCES, "cell.sources") \
	X(CELL_MOUNTS, "cell.mounts") \
	X(CELL_LOCK, "cell.lock") \
	X(CELL_READY, "cell.ready") \
	X(CELL_SOCKET, "cell.socket") \
	X(CELL_JOURNAL, "cell.journal") \
	X(CELL_UP, "cell.up") \
	X(EXEC_SPAWN, "exec.spawn") \
	X(EXEC_OUTPUT, "exec.output") \
	X(EXEC_EXIT, "exec.exit") \
	X(CELL_STOP, "cell.stop") \
	X(CELL_REMOVE, "cell.remove") \
	X(CELL_GONE, "cell.gone") \
	X(STORE_BEGIN, "store.begin") \
	X(STORE_COMMIT, "store.commit") \
	X(STORE_BACKUP, "store.backup") \
	X(ENGINE_CREATE, "engine.create") \
	X(ENGINE_SPEC, "engine.spec") \
	X(ENGINE_UP, "engine.up") \
	X(ENGINE_EXEC, "engine.exec") \
	X(ENGINE_GONE, "engine.gone") \
	X(ENGINE_REMOVE, "engine.remove") \
	X(ENGINE_ANSWER, "engine.answer") \
	X(SEAL_MAKE, "seal.make") \
	X(SEAL_STORE, "seal.store") \
	X(SEAL_COPY, "seal.copy") \
	X(ROLLBACK_STORE, "rollback.store") \
	X(FORK_STORE, "fork.store") \
	X(LAYER_BEGIN, "layer.begin") \
	X(LAYER_ENTRY, "layer.entry") \
	X(LAYER_MANIFEST, "layer.manifest") \
	X(LAYER_RENAME, "layer.rename") \
	X(LAYER_DONE, "layer.done") \
	X(LAYER_SYNC, "layer.sync") \
	X(LAYER_CLEAR, "layer.clear") \
	X(REPO_BEGIN, "repo.begin") \
	X(REPO_COMMIT, "repo.commit") \
	X(REPO_RESULT, "repo.result") \
	X(GITLAYER_BEGIN, "repo.layer.begin") \
	X(GITLAYER_FILES, "repo.layer.files") \
	X(FETCH_LOCK, "repo.fetch.lock") \
	X(FETCH_ASK, "repo.fetch.ask") \
	X(FETCH_INIT, "repo.fetch.init") \
	X(FETCH_DONE, "repo.fetch.done") \
	X(TREE_FILES, "repo.tree.files") \
	X(TREE_GIT, "repo.tree.git") \
	X(COPY_FILES, "repo.copy.files") \
	X(PIN_BEGIN, "repo.pin.begin") \
	X(PIN_SCAN, "repo.pin.scan") \
	X(PIN_STORE, "repo.pin.store") \
	X(OWN_COPY, "own.copy") \
	X(MOVE_COPY, "move.copy") \
	X(MOVE_ENTRY, "move.entry") \
	X(REVIEW_INTENT, "review.intent") \
	X(REVIEW_TEMP, "review.temp") \
	X(REVIEW_COMMIT, "review.commit") \
	X(REVIEW_STEP, "review.step") \
	X(REVIEW_BACK, "review.back") \
	X(REVIEW_DONE, "review.done") \
	X(REVIEW_BASE, "review.base") \
	X(REVIEW_CLEAN, "review.clean") \
	X(REVIEW_END, "review.end") \
	X(SETUP_BEGIN, "setup.begin") \
	X(SETUP_SEAL, "setup.seal") \
	X(SETUP_KEEP, "setup.keep") \
	X(SETUP_KEPT, "setup.kept") \
	X(REVIEW_INHERIT, "review.inherit") \
	X(EXPORT_OBJECTS, "export.objects") \
	X(EXPORT_REF, "export.ref") \
	X(GC_LOOK, "gc.look") \
	X(GC_FILE, "gc.file") \
	X(GC_ROW, "gc.row") \
	X(GC_SNAPSHOT, "gc.snapshot") \
	X(GC_DERIVED, "gc.derived") \
	X(GC_STORE, "gc.store") \
	X(GC_TREE, "gc.tree") \
	X(GC_REMOVED, "gc.removed") \
	X(SYNC_START, "sync.start") \
	// one a line: branches add here

enum fault {
#define X(id, name) FAULT_##id,
	FAULTS(X)
#undef X
	FAULT_COUNT,
};

void fault_init(void); // reads SKEP_FAULT; call once per program
// True when this pass must fail: return fault(FAULT_X, e) ? -1 : ...; does not return when it must die.
bool fault(enum fault f, struct err *e);
void fault_list(void); // names on stdout
