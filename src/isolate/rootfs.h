// SPDX-License-Identifier: Apache-2.0
// What a cell sees as its file tree: three plans, built from plain facts.
//
//   template  made once by the nursery on a tmpfs that only it and its cells can see: a copy of /etc without the
//             host's names and secrets, a minimal /dev and /var, an empty directory for masks
//   skeleton  made for each slot before anybody asked for it: system directories read-only, /proc with masks,
//             private /tmp, /run, /dev/shm, terminals
//   cell      made when the spec is known: workspace and home overlays, identity, tools; system overlays with --root
//
// Sources that belong to the host (workspace, layer, image, system directories under --root) are attached in the
// template's stage directory under short names, and disappear with the old root.
#pragma once
#include "isolate/mounts.h"
#include "isolate/userns.h"
#include "model/spec.h"

#define ROOTFS_SYSTEM_MAX 16
#define ROOTFS_MOUNTS_MAX 256 // as many as a spec can hold: none is ever left out
#define ROOTFS_SOURCES_MAX (ROOTFS_MOUNTS_MAX + LIMIT_LAYERS + ROOTFS_SYSTEM_MAX + 16)

#define ROOTFS_SCRATCH ".skep" // below the root: the tmpfs of a cell, until rootfs_cover; then where its identity is
#define ROOTFS_HIDE "h" // in the stage: whiteouts over the base (isolate/hide.h), made before rootfs_place's plan is applied

#define ROOTFS_TMP "root/tmp" // the part of a layer that is /tmp where the spec keeps it
#define ROOTFS_TOOLS "t" // in the stage: programs of ours that the root profile sees, below what the sandbox writes
#define ROOTFS_POINTS "p" // in the stage: below home, the directories that caches are mounted on; made before home is

struct rootfs_host {
	struct {
		char name[16];
		char link[64]; // "" = a directory
	} system[ROOTFS_SYSTEM_MAX];
	int n_system;
	uint32_t uid, gid; // of the user inside
	char *template;	   // directory of the template, absolute
	char *sudo;	   // path of skep-sudo on the host, or NULL: then no cell has it
	char *ownership;   // rootless --root: directory of the ownership layer, or NULL
};

enum source_map {
	SOURCE_PLAIN, // owners on disk are the cell's own ids
	SOURCE_OWNER, // the owner of the directory becomes the cell's user
	SOURCE_ROOT,  // root does: what skepd itself made, running as root
};

struct source {
	char name[16]; // below stage/
	char *path;
	enum source_map map;
	bool copy_of_host; // owners are the host's, as in /usr: shifted like PLAIN as root, unmapped rootless
};

struct sources {
	struct source list[ROOTFS_SOURCES_MAX];
	int n;
};

void rootfs_scan(struct rootfs_host *h, const char *template_dir); // which system directories there are
void rootfs_template(const struct rootfs_host *h, struct plan *p);
// The skeleton: what comes from the host, /dev last; then what the kernel gives.
void rootfs_system(const struct rootfs_host *h, enum profile profile, bool image, struct plan *p);
void rootfs_kernel(bool image, struct plan *p);
// The skeleton of a place's mold, and what each cell cloned from it mounts for itself.
void rootfs_frame(const struct rootfs_host *h, struct plan *p);
void rootfs_cover(struct plan *p); // after it nobody has a name for ROOTFS_SCRATCH
void rootfs_own(struct plan *p);
bool rootfs_can_mold(const struct cell_spec *place);
// Options of one overlay. lower: colon-separated names in stage/; part: the subtree of layers ("ws", "home", "root/usr").
// Sealed layers are k0, k1 ...; those that lack the part are left out when it is mounted.
void rootfs_overlay(const struct cell_spec *s, const char *lower, const char *part, struct buf *out);
bool rootfs_has_tools(const struct rootfs_host *h, const struct cell_spec *s); // ROOTFS_TOOLS is among its sources
bool rootfs_has_caches(const struct cell_spec *s);
// The part of layers that keeps what a sandbox writes to the cache that it sees at dst; owned.
char *rootfs_cache_part(const char *dst);
// What the slot brought before the spec was known.
enum slot_has {
	SLOT_EMPTY,
	SLOT_LAYER, // a new layer, its home mounted
	SLOT_PLACE, // and workspace and tools
};
void rootfs_sources(const struct rootfs_host *h, const struct cell_spec *s, enum slot_has has, struct sources *out);
void sources_done(struct sources *s);
// place: NULL, or one whose sources are attached already
void rootfs_fresh_home(const struct rootfs_host *h, const struct cell_spec *place, struct plan *p);
void rootfs_place(const struct rootfs_host *h, const struct cell_spec *s, struct plan *p);
void rootfs_cell(const struct rootfs_host *h, const struct cell_spec *s, enum slot_has has, struct plan *p);
