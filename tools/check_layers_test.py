#!/usr/bin/env python3
"""Tests of check_layers.py on made-up trees."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_layers  # noqa: E402


class CheckLayers(unittest.TestCase):
    def findings(self, files):
        """The findings for a tree of {path: included names, or the text of the file}."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, content in files.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                if not isinstance(content, str):
                    content = "".join('#include "%s"\n' % include for include in content)
                path.write_text(content)
            return check_layers.check(root)

    def assert_allowed(self, source, target, name):
        self.assertEqual(self.findings({source: [name], target: []}), [])

    def assert_refused(self, source, target, name, needle="may not include"):
        findings = self.findings({source: [name], target: []})
        self.assertEqual(len(findings), 1, findings)
        self.assertIn(needle, findings[0])
        self.assertTrue(findings[0].startswith(source + ":1: "), findings[0])

    def test_an_empty_tree_is_clean(self):
        self.assertEqual(self.findings({}), [])

    def test_includes_go_downwards(self):
        for source, target in (
            ("driver/nvml.cc", "base/result.h"),
            ("gpu/sampler.h", "driver/nvml.h"),
            ("guard/policy.h", "gpu/gpu_sample.h"),
            ("jobs/store.cc", "base/file.h"),
            ("keeper/keeper.cc", "base/process.h"),
            ("api/json.cc", "base/units.h"),
            ("cli/run.cc", "api/types.h"),
            ("daemon/loop.cc", "guard/policy.h"),
            ("daemon/loop.cc", "keeper/client.h"),
            ("daemon/loop.cc", "api/json.h"),
            ("guard/enforcer.cc", "guard/policy.h"),
            ("shim/hooks/memory.cc", "driver/abi/cuda.h"),
            ("shim/link/join.cc", "ledger/wire/layout.h"),
        ):
            with self.subTest(source=source, target=target):
                self.assert_allowed("src/" + source, "src/" + target, target)

    def test_includes_upwards_are_refused(self):
        for source, target in (
            ("base/file.h", "driver/nvml.h"),
            ("driver/nvml.cc", "gpu/gpu_sample.h"),
            ("gpu/sampler.cc", "guard/policy.h"),
            ("guard/policy.cc", "daemon/loop.h"),
            ("keeper/keeper.cc", "jobs/store.h"),
            ("keeper/keeper.cc", "driver/nvml.h"),
            ("api/json.cc", "gpu/gpu_sample.h"),
            ("cli/run.cc", "daemon/loop.h"),
            ("cli/run.cc", "jobs/store.h"),
            ("daemon/loop.cc", "cli/run.h"),
            ("shim/hooks/memory.cc", "base/result.h"),
            ("shim/hooks/memory.cc", "driver/nvml.h"),
        ):
            with self.subTest(source=source, target=target):
                self.assert_refused("src/" + source, "src/" + target, target)

    def test_capabilities_do_not_see_each_other(self):
        self.assert_refused("src/guard/policy.h", "src/jobs/store.h", "jobs/store.h")
        self.assert_refused("src/jobs/store.cc", "src/guard/policy.h", "guard/policy.h")
        self.assert_refused("src/guard/enforcer.cc", "src/keeper/client.h", "keeper/client.h")

    def test_folders_of_the_daemon_include_those_before_them(self):
        self.assert_allowed("src/daemon/queue/module.cc", "src/daemon/suspension/module.h", "daemon/suspension/module.h")
        self.assert_allowed("src/daemon/core/core.h", "src/daemon/http/router.h", "daemon/http/router.h")
        self.assert_allowed("src/daemon/daemon.cc", "src/daemon/metrics/module.h", "daemon/metrics/module.h")
        self.assert_refused("src/daemon/suspension/module.cc", "src/daemon/queue/module.h", "daemon/queue/module.h",
                            "src/daemon/suspension may not include src/daemon/queue/module.h")
        self.assert_refused("src/daemon/core/core.cc", "src/daemon/shims/module.h", "daemon/shims/module.h")
        self.assert_refused("src/daemon/metrics/module.cc", "src/daemon/daemon.h", "daemon/daemon.h")

    def test_a_folder_of_the_daemon_without_a_place_is_refused(self):
        findings = self.findings({"src/daemon/misc/thing.h": []})
        self.assertEqual(len(findings), 1)
        self.assertIn("no place for this folder", findings[0])

    def test_modules_of_the_daemon_are_constructed_in_the_order_of_their_folders(self):
        right = "auto& shims = Add<ShimsModule>();\nAdd<SharingModule>(shims);\n"
        self.assertEqual(self.findings({"src/daemon/daemon.cc": right}), [])
        findings = self.findings({"src/daemon/daemon.cc": "Add<QueueModule>();\nAdd<ShimsModule>();\n"})
        self.assertEqual(len(findings), 1, findings)
        self.assertIn("shims is constructed out of the order", findings[0])

    def test_modules_of_two_words_are_constructed_in_order_too(self):
        right = "Add<DeviceModule>();\nAdd<DriverLimitsModule>();\nAdd<MpsModule>();\n"
        self.assertEqual(self.findings({"src/daemon/daemon.cc": right}), [])
        findings = self.findings({"src/daemon/daemon.cc": "Add<MpsModule>();\nAdd<DriverLimitsModule>();\n"})
        self.assertEqual(len(findings), 1, findings)
        self.assertIn("driver_limits is constructed out of the order", findings[0])

    def test_a_module_without_a_folder_of_its_name_is_reported(self):
        findings = self.findings({"src/daemon/daemon.cc": "Add<ShimsModule>();\nAdd<EnergyAccountingModule>();\n"})
        self.assertEqual(len(findings), 1, findings)
        self.assertIn("the module energy_accounting has no folder of its name in DAEMON", findings[0])

    def test_folders_of_the_command_line_include_those_before_them(self):
        self.assert_allowed("src/cli/compat/gflow/views.cc", "src/cli/queue/listing.h", "cli/queue/listing.h")
        self.assert_allowed("src/cli/queue/listing.cc", "src/cli/table.h", "cli/table.h")
        self.assert_allowed("src/cli/app.cc", "src/cli/compat/gflow/programs.h", "cli/compat/gflow/programs.h")
        self.assert_allowed("src/cli/queue/queue_app_test.cc", "src/cli/compat/gflow/views.h", "cli/compat/gflow/views.h")
        self.assert_refused("src/cli/queue/listing.cc", "src/cli/compat/gflow/views.h", "cli/compat/gflow/views.h",
                            "src/cli/queue may not include src/cli/compat/gflow/views.h")
        self.assert_refused("src/cli/queue/request.cc", "src/cli/compat/known_tools.h", "cli/compat/known_tools.h")
        self.assert_refused("src/cli/queue/listing.h", "src/cli/top/rows.h", "cli/top/rows.h")
        self.assert_refused("src/cli/top/rows.cc", "src/cli/compat/slurm/jobs.h", "cli/compat/slurm/jobs.h")

    def test_a_folder_of_the_command_line_without_a_place_is_refused(self):
        findings = self.findings({"src/cli/misc/thing.h": []})
        self.assertEqual(len(findings), 1, findings)
        self.assertIn("no place for this folder in CLI", findings[0])

    def test_jobs_sees_only_the_public_face_of_keeper(self):
        for name in ("spec", "journal", "client", "process_tree"):
            self.assert_allowed("src/jobs/job_manager.cc", "src/keeper/%s.h" % name, "keeper/%s.h" % name)
        self.assert_refused("src/jobs/job_manager.cc", "src/keeper/log_file.h", "keeper/log_file.h")

    def test_the_rooms_of_the_shim_include_those_below_them(self):
        rooms = check_layers.SHIM_ROOMS
        for here, room in enumerate(rooms):
            for there, other in enumerate(rooms):
                source, target = "src/shim/%s/a.cc" % room, "src/shim/%s/b.h" % other
                with self.subTest(source=source, target=target):
                    if there <= here:
                        self.assert_allowed(source, target, target[len("src/"):])
                    else:
                        self.assert_refused(source, target, target[len("src/"):], "is below")

    def test_a_test_in_a_room_of_the_shim_goes_no_higher_either(self):
        self.assert_refused("src/shim/gate/gate_test.cc", "src/shim/hooks/hooks.h", "shim/hooks/hooks.h", "is below")

    def test_a_source_of_the_shim_is_in_a_room(self):
        for source in ("src/shim/meter.h", "src/shim/misc/meter.h"):
            findings = self.findings({source: []})
            self.assertEqual(len(findings), 1, findings)
            self.assertIn("no room of the shim", findings[0])

    def test_the_product_never_includes_the_simulated_driver(self):
        self.assert_refused("src/driver/nvml.cc", "sim/state/state.h", "sim/state/state.h")
        self.assert_refused("apps/gpumand/main.cc", "sim/state/state.h", "sim/state/state.h")
        self.assert_allowed("src/driver/nvml_test.cc", "sim/state/state.h", "sim/state/state.h")
        self.assert_allowed("tests/integration/limit_test.cc", "sim/state/state.h", "sim/state/state.h")

    def test_the_simulated_driver_includes_only_the_abi(self):
        self.assert_allowed("sim/cuda/api.cc", "src/driver/abi/cuda.h", "driver/abi/cuda.h")
        self.assert_refused("sim/cuda/api.cc", "src/driver/nvml.h", "driver/nvml.h")
        self.assert_refused("sim/cuda/api.cc", "src/base/result.h", "base/result.h")
        self.assert_allowed("sim/tool/show.cc", "src/base/result.h", "base/result.h")
        self.assert_refused("sim/tool/show.cc", "src/driver/nvml.h", "driver/nvml.h")

    def test_programs_include_everything_below_but_not_each_other(self):
        self.assert_allowed("apps/gpumand/main.cc", "src/daemon/daemon.h", "daemon/daemon.h")
        self.assert_refused("apps/gpumand/main.cc", "apps/gpuman-load/options.h", "apps/gpuman-load/options.h")
        self.assert_allowed("apps/gpuman-load/main.cc", "apps/gpuman-load/options.h", "options.h")
        self.assert_allowed("tests/conformance/vmm_test.cc", "apps/gpuman-load/kernels.h.in", "kernels.h")

    def test_plugins_see_the_service_layer_only(self):
        self.assert_allowed("plugins/slurm/spank.cc", "src/api/client.h", "api/client.h")
        self.assert_refused("plugins/slurm/spank.cc", "src/jobs/store.h", "jobs/store.h")

    def test_unknown_and_climbing_includes_are_refused(self):
        self.assert_refused("src/guard/policy.cc", "src/gpu/gpu_sample.h", "gpu/samples.h", "not a file of this tree")
        self.assert_refused("src/guard/policy.cc", "src/gpu/gpu_sample.h", "../gpu/gpu_sample.h", "climbs")

    def test_a_generated_header_is_known_by_its_template(self):
        self.assert_allowed("apps/gpuman-load/session.cc", "apps/gpuman-load/kernels.h.in", "kernels.h")

    def test_a_generated_file_is_known_by_its_name_in_cmake(self):
        self.assert_allowed("src/driver/abi_test.cc", "src/driver/values.inc", "values.inc")
        self.assertEqual(self.findings({"src/driver/abi/abi_test.cc": ["values.inc"],
                                        "src/driver/CMakeLists.txt": "file(CONFIGURE OUTPUT values.inc CONTENT x)"}), [])

    def test_a_folder_without_a_layer_is_refused(self):
        findings = self.findings({"src/misc/thing.h": []})
        self.assertEqual(len(findings), 1)
        self.assertIn("no layer", findings[0])

    def test_a_folder_of_a_table_that_the_tree_does_not_have_is_reported(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for above, names in (("src", check_layers.LAYERS), ("src/shim", check_layers.SHIM_ROOMS),
                                 ("src/daemon", check_layers.DAEMON), ("src/cli", check_layers.CLI)):
                for name in names:
                    (root / above / name).mkdir(parents=True, exist_ok=True)
            self.assertEqual(check_layers.missing_folders(root), [])
            gone = ("src/daemon/mps", "src/mps", "src/shim/gate")
            for name in gone:
                (root / name).rmdir()
            findings = check_layers.missing_folders(root)
            self.assertEqual([finding.split(":")[0] for finding in findings], list(gone))
            self.assertIn("DAEMON of tools/check_layers.py has this folder", findings[0])
            self.assertEqual(check_layers.main([folder]), 1)

    def test_a_circle_is_reported_once(self):
        findings = self.findings({
            "src/base/a.h": ["base/b.h"], "src/base/b.h": ["base/c.h"], "src/base/c.h": ["base/a.h"],
            "src/base/user.cc": ["base/a.h", "base/c.h"]})
        self.assertEqual(len(findings), 1, findings)
        self.assertIn("src/base/a.h -> src/base/b.h -> src/base/c.h -> src/base/a.h", findings[0])

    def test_a_diamond_is_no_circle(self):
        self.assertEqual(self.findings({
            "src/base/a.h": ["base/b.h", "base/c.h"], "src/base/b.h": ["base/d.h"],
            "src/base/c.h": ["base/d.h"], "src/base/d.h": []}), [])

    def test_a_long_main_is_refused(self):
        self.assertEqual(self.findings({"apps/gpuman/main.cc": "//\n" * 59}), [])
        findings = self.findings({"apps/gpuman/main.cc": "//\n" * 60})
        self.assertEqual(len(findings), 1)
        self.assertIn("fewer than 60", findings[0])

    def test_a_number_of_json_is_taken_with_a_check(self):
        for unchecked in ('json.at("n").get<int>()', "it->get<std::uint64_t>()", "it->template get<T>()", "json.get<pid_t>()",
                          "json.get<unsigned long>()", 'json.value("n", std::int64_t{0})', 'json.value("n", 0)'):
            findings = self.findings({"src/jobs/record.cc": "auto n = %s;\n" % unchecked})
            self.assertEqual(len(findings), 1, unchecked)
            self.assertIn("src/jobs/record.cc:1: a number of JSON, unchecked", findings[0])
            self.assertEqual(self.findings({"src/jobs/record_test.cc": "auto n = %s;\n" % unchecked}), [])
        for checked in ('base::Checked<int>(json.at("n"))', "it->get<std::string>()", "json.get<bool>()", "std::get<int>(one)",
                        'json.value("paused", false)', "text;  // not json.get<int>()", "owner.get()"):
            self.assertEqual(self.findings({"src/jobs/record.cc": "auto n = %s;\n" % checked}), [], checked)

    def test_system_includes_and_comments_do_not_count(self):
        self.assertEqual(self.findings({
            "src/base/a.h": '#include <daemon/loop.h>\n// #include "daemon/loop.h"\n',
            "src/daemon/loop.h": []}), [])


if __name__ == "__main__":
    unittest.main()
