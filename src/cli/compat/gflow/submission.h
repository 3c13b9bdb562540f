// What a job that was submitted with gflow's words needs beyond gpuman's. Pure.
#pragma once

#include "api/queue_types.h"

namespace gpuman::cli::gflow {

// Takes limits of GPU memory from a job without GPUs: gflow accepts them.
void Forgive(api::Submission& job);

// Gives the tasks of an array their index under gflow's name, also where the name stands in quotes in the
// command's words.
void NameTask(api::Submission& job);

}  // namespace gpuman::cli::gflow
