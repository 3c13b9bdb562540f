// Changes to a job that was submitted with gflow's options. Pure.
#pragma once

#include "api/queue_types.h"

namespace gpuman::cli::gflow {

// Removes limits of GPU memory from a job without GPUs, since gflow accepts such limits.
void Forgive(api::Submission& job);

// Gives the tasks of an array their index under gflow's name, also where the name stands in quotes in the
// command's words.
void NameTask(api::Submission& job);

}  // namespace gpuman::cli::gflow
