"""Feeds check_layers a tree with bad includes and expects each to be named."""
import pathlib
import tempfile
import unittest

import check_layers


class CheckLayers(unittest.TestCase):
    def tree(self, files):
        root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        files = dict(files)
        files.setdefault(
            "CMakeLists.txt", "encore_module(base)\nencore_module(plan DEPENDS base)\nencore_module(tape TORCH DEPENDS plan)"
        )
        (root / "include/encore").mkdir(parents=True)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return root

    def test_a_lower_module_may_not_use_a_higher_one(self):
        tree = self.tree({"src/plan/a.cpp": '#include "base/x.h"\n#include "tape/tape.h"\n'})
        self.assertEqual(check_layers.violations(tree), ["src/plan/a.cpp:2: plan may not use tape (tape/tape.h)"])

    def test_the_planner_may_not_use_torch(self):
        tree = self.tree({"src/plan/a.cpp": "#include <ATen/core/Tensor.h>\n"})
        self.assertEqual(len(check_layers.violations(tree)), 1)

    def test_public_headers_belong_to_the_module_that_implements_them(self):
        tree = self.tree({"include/encore/scope.h": "", "src/tape/scope.cpp": "", "src/base/b.cpp": "#include <encore/scope.h>\n"})
        self.assertEqual(check_layers.violations(tree), ["src/base/b.cpp:1: base may not use tape (encore/scope.h)"])

    def test_allowed_uses_pass(self):
        tree = self.tree({"src/tape/a.cpp": '#include <c10/util/Optional.h>\n#include "plan/g.h"\n', "src/plan/g.h": ""})
        self.assertEqual(check_layers.violations(tree), [])


if __name__ == "__main__":
    unittest.main()
