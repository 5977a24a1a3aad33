// SPDX-License-Identifier: Apache-2.0
// A live cell sees the files of today. An overlay asks the directory below once about a name and keeps the answer: a file that
// the host replaces by rename stays the old one, and a name that was absent stays absent. Before a command starts, at
// most once a second, the cell's overlays forget what no process of the cell holds; while a command runs those of the workspace
// and of mounts do, every three seconds. Less often where that takes long: what is forgotten is read again.
#pragma once

struct cell;
struct frame;

void refresh_overlays(struct cell *c); // a command is about to start
void refresh_running(struct cell *c);  // some time has passed
void refresh_now(struct cell *c);      // the base has just changed
void refresh_root(struct cell *c, struct frame *f); // I M_ROOT: takes the descriptor
