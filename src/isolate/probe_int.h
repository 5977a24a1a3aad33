// SPDX-License-Identifier: Apache-2.0
// The tests behind probe.c. Each does the real thing in a child that then ends: nothing stays behind.
#pragma once
#include "base/buf.h"

struct probe_note {
	char text[256]; // what a test found out besides success
};

// dir: a scratch directory with l/ u/ w/ m/ in it.
int probe_try_namespaces(const char *dir, struct probe_note *n, struct err *e) MUST_USE;
int probe_try_overlay(const char *dir, struct probe_note *n, struct err *e) MUST_USE;
int probe_try_proc(const char *dir, struct probe_note *n, struct err *e) MUST_USE;
int probe_try_seccomp(const char *dir, struct probe_note *n, struct err *e) MUST_USE;
int probe_try_landlock(const char *dir, struct probe_note *n, struct err *e) MUST_USE;
int probe_try_cgroup(const char *dir, struct probe_note *n, struct err *e) MUST_USE; // note: mode, freeze, controllers
int probe_try_subids(const char *dir, struct probe_note *n, struct err *e) MUST_USE; // note: "none" or the count
int probe_try_idmap(const char *dir, struct probe_note *n, struct err *e) MUST_USE;

// Runs one of them in a child; 5 seconds at most.
int probe_in_child(int (*fn)(const char *, struct probe_note *, struct err *), const char *dir, struct probe_note *out,
		   struct err *e) MUST_USE;
