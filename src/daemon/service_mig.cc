// MIG: what was asked for is kept in the store, and what becomes of it is told.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "daemon/service.h"

namespace gpuman::daemon {

void Service::BeginMig(const jobs::Settings& settings) {
  MigHost& host = *this;
  mig_ = std::make_unique<MigManager>(loop_, host);
  mig_->Recall(settings);
  mig_->SetPeriod(config_.mig.check);
}

void Service::KeepMig(jobs::Settings entries, std::function<void(base::Result<>)> done) {
  jobs::Batch batch;
  batch.settings = std::move(entries);
  store_->Submit(std::move(batch), std::move(done));
}

void Service::OnSplit() {
  if (dispatcher_) dispatcher_->OnInventory();
  if (!ready_ && AllSampled()) BecomeReady();
}

void Service::TellMig(const gpu::Gpu& gpu, const char* kind, const std::string& text) {
  jobs::Event event;
  event.at = clock_.Wall();
  event.kind = kind;
  event.gpu = gpu.uuid;
  event.message = fmt::format("GPU {}: {}", gpu.index, text);
  spdlog::info("{}: {}", kind, event.message);
  events_->Add(std::move(event));
}

}  // namespace gpuman::daemon
