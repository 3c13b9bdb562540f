// Kubelet's side of the device plugin protocol with the gRPC library, for tests and benchmarks of
// gpuman-kube-plugin.
//
//   fake_kubelet DIRECTORY [VERSION]
//
// Removes the sockets in DIRECTORY, serves kubelet.sock there and accepts plugins of VERSION (default
// v1beta1). In DIRECTORY/../pod-resources, if that exists, kubelet.sock tells which container has which
// devices. Each list of devices, and the result of each command, is one line of JSON on stdout. Commands, a
// line each on stdin:
//
//   allocate RESOURCE ID…        Allocate, for one container
//   prefer RESOURCE SIZE [ID…]   GetPreferredAllocation of these (none: of all healthy devices)
//   options RESOURCE             GetDevicePluginOptions
//   start RESOURCE ID…           PreStartContainer
//   pod RESOURCE NAMESPACE POD CONTAINER ID…   this container has these devices from now on
//   time RESOURCE SIZE COUNT     that many allocations of the preferred SIZE, timed
//
// Ends with its stdin.
#include <device_plugin.grpc.pb.h>
#include <grpcpp/grpcpp.h>
#include <pod_resources.grpc.pb.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

namespace {

using Json = nlohmann::json;
using Plugin = v1beta1::DevicePlugin::Stub;

std::mutex output;
void Say(const Json& line) {
  const std::lock_guard lock(output);
  std::cout << line.dump() << std::endl;
}

Json Refusal(const char* event, const std::string& resource, const grpc::Status& status) {
  return {{"event", event},
          {"resource", resource},
          {"code", status.error_code()},
          {"message", status.error_message()}};
}

// One registered plugin; watches its devices until the plugin or kubelet ends.
class Resource {
 public:
  Resource(std::string name, const std::string& socket)
      : name_(std::move(name)),
        plugin_(v1beta1::DevicePlugin::NewStub(
            grpc::CreateChannel("unix:" + socket, grpc::InsecureChannelCredentials()))),
        thread_([this] { Watch(); }) {}
  ~Resource() {
    context_.TryCancel();
    thread_.join();
  }

  void Run(const std::string& command, std::istream& words) {
    if (command == "allocate") return Allocate(Rest(words));
    if (command == "options") return Options();
    if (command == "start") return Start(Rest(words));
    if (command == "unwatch") return context_.TryCancel();
    unsigned size = 0, count = 0;
    words >> size;
    if (command == "prefer") return Say({{"event", "preferred"}, {"ids", Prefer(size, Rest(words))}});
    words >> count;
    if (command == "time") return Time(size, count);
    Say({{"event", "unknown"}, {"command", command}});
  }

 private:
  static std::vector<std::string> Rest(std::istream& words) {
    return {std::istream_iterator<std::string>(words), {}};
  }

  void Watch() {
    const auto reader = plugin_->ListAndWatch(&context_, {});
    for (v1beta1::DeviceList list; reader->Read(&list);) {
      Json ill = Json::array();
      Json nodes = Json::object();
      std::vector<std::string> healthy;
      for (const auto& device : list.devices()) {
        if (device.health() == "Healthy")
          healthy.push_back(device.id());
        else
          ill.push_back(device.id());
        for (const auto& node : device.topology().nodes()) nodes[device.id()] = node.id();
      }
      const Json line = {{"event", "devices"},           {"resource", name_},
                         {"healthy", healthy},           {"unhealthy", ill},
                         {"bytes", list.ByteSizeLong()}, {"nodes", nodes}};
      {
        const std::lock_guard lock(mutex_);
        healthy_ = std::move(healthy);
      }
      Say(line);
    }
    Say(Refusal("ended", name_, reader->Finish()));
  }

  std::vector<std::string> Prefer(unsigned size, std::vector<std::string> available) {
    grpc::ClientContext context;
    v1beta1::PreferenceRequest request;
    v1beta1::PreferenceAnswer answer;
    if (available.empty()) {
      const std::lock_guard lock(mutex_);
      available = healthy_;
    }
    auto& container = *request.add_containers();
    container.mutable_available()->Add(available.begin(), available.end());
    container.set_size(static_cast<int>(size));
    if (!plugin_->GetPreferredAllocation(&context, request, &answer).ok() || answer.containers_size() != 1)
      return {};
    return {answer.containers(0).devices().begin(), answer.containers(0).devices().end()};
  }

  grpc::Status Ask(const std::vector<std::string>& ids, v1beta1::AllocateAnswer& answer) {
    grpc::ClientContext context;
    v1beta1::AllocateRequest request;
    request.add_containers()->mutable_devices()->Add(ids.begin(), ids.end());
    return plugin_->Allocate(&context, request, &answer);
  }

  void Allocate(const std::vector<std::string>& ids) {
    v1beta1::AllocateAnswer answer;
    const auto status = Ask(ids, answer);
    if (!status.ok()) return Say(Refusal("refused", name_, status));
    Json line = {{"event", "granted"},      {"resource", name_},        {"environment", Json::object()},
                 {"mounts", Json::array()}, {"devices", Json::array()}, {"cdi", Json::array()}};
    for (const auto& container : answer.containers()) {
      for (const auto& [name, value] : container.environment()) line["environment"][name] = value;
      for (const auto& mount : container.mounts())
        line["mounts"].push_back({mount.host_path(), mount.container_path(), mount.read_only()});
      for (const auto& node : container.devices())
        line["devices"].push_back({node.host_path(), node.permissions()});
      for (const auto& device : container.cdi_devices()) line["cdi"].push_back(device.name());
    }
    Say(line);
  }

  void Options() {
    grpc::ClientContext context;
    v1beta1::DevicePluginOptions options;
    const auto asked = plugin_->GetDevicePluginOptions(&context, {}, &options);
    Say({{"event", "options"},
         {"ok", asked.ok()},
         {"prefers", options.prefers()},
         {"pre_start", options.pre_start_required()}});
  }

  void Start(const std::vector<std::string>& ids) {
    grpc::ClientContext context;
    v1beta1::PreStartRequest request;
    request.mutable_devices()->Add(ids.begin(), ids.end());
    v1beta1::Empty empty;
    const auto status = plugin_->PreStartContainer(&context, request, &empty);
    Say(status.ok() ? Json{{"event", "started"}, {"resource", name_}} : Refusal("refused", name_, status));
  }

  void Time(unsigned size, unsigned count) {
    const auto ids = Prefer(size, {});
    std::vector<double> times;
    for (unsigned i = 0; i < count; ++i) {
      v1beta1::AllocateAnswer answer;
      const auto begin = std::chrono::steady_clock::now();
      const auto status = Ask(ids, answer);
      times.push_back(
          std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
      if (!status.ok()) return Say(Refusal("refused", name_, status));
    }
    Say({{"event", "times"}, {"milliseconds", times}});
  }

  const std::string name_;
  const std::unique_ptr<Plugin> plugin_;
  grpc::ClientContext context_;
  std::mutex mutex_;
  std::vector<std::string> healthy_;
  std::thread thread_;
};

class Pods final : public v1::PodResourcesLister::Service {
 public:
  void Add(const std::string& resource, std::istream& words) {
    v1::PodResources pod;
    words >> *pod.mutable_name_space() >> *pod.mutable_name() >> *pod.add_containers()->mutable_name();
    auto& devices = *pod.mutable_containers(0)->add_devices();
    devices.set_resource(resource);
    for (std::string id; words >> id;) devices.add_ids(id);
    const std::lock_guard lock(mutex_);
    *pods_.add_pods() = std::move(pod);
    Say({{"event", "pod"}, {"pods", pods_.pods_size()}});
  }

 private:
  grpc::Status List(grpc::ServerContext*, const v1::ListRequest*, v1::ListAnswer* answer) override {
    const std::lock_guard lock(mutex_);
    *answer = pods_;
    return grpc::Status::OK;
  }
  std::mutex mutex_;
  v1::ListAnswer pods_;
};

class Registry final : public v1beta1::Registration::Service {
 public:
  Registry(std::filesystem::path directory, std::string version, Pods& pods)
      : directory_(std::move(directory)), version_(std::move(version)), pods_(pods) {}

  void Run(const std::string& line) {
    std::istringstream words(line);
    std::string command, name;
    words >> command >> name;
    if (command == "pod") return pods_.Add(name, words);
    std::shared_ptr<Resource> resource;
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = resources_.find(name); found != resources_.end()) resource = found->second;
    }
    if (!resource) return Say({{"event", "unknown"}, {"resource", name}});
    resource->Run(command, words);
  }

 private:
  grpc::Status Register(grpc::ServerContext*, const v1beta1::RegisterRequest* request,
                        v1beta1::Empty*) override {
    if (request->version() != version_)
      return {grpc::StatusCode::UNKNOWN,
              "API version \"" + request->version() + "\" is not supported, " + version_ + " is"};
    Say({{"event", "registered"},
         {"resource", request->resource_name()},
         {"prefers", request->options().prefers()}});
    // The resource says its devices as soon as it is made; a command that follows has to find it.
    const std::lock_guard lock(mutex_);
    resources_[request->resource_name()] =
        std::make_shared<Resource>(request->resource_name(), directory_ / request->endpoint());
    return grpc::Status::OK;
  }

  const std::filesystem::path directory_;
  const std::string version_;
  Pods& pods_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Resource>> resources_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::filesystem::path directory = argv[1];
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    std::filesystem::remove(entry.path());
  Pods pods;
  grpc::ServerBuilder pods_builder;
  const auto pods_directory = directory.parent_path() / "pod-resources";
  if (std::filesystem::exists(pods_directory)) {
    std::filesystem::remove(pods_directory / "kubelet.sock");
    pods_builder.AddListeningPort("unix:" + (pods_directory / "kubelet.sock").string(),
                                  grpc::InsecureServerCredentials());
    pods_builder.RegisterService(&pods);
  }
  const auto pods_server = std::filesystem::exists(pods_directory) ? pods_builder.BuildAndStart() : nullptr;
  Registry registry(directory, argc > 2 ? argv[2] : "v1beta1", pods);
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + (directory / "kubelet.sock").string(),
                           grpc::InsecureServerCredentials());
  builder.RegisterService(&registry);
  const auto server = builder.BuildAndStart();
  if (!server) return 1;
  Say({{"event", "serving"}});
  for (std::string line; std::getline(std::cin, line);) registry.Run(line);
  server->Shutdown(std::chrono::system_clock::now());
  return 0;
}
