"""The modules of a conditioned model: its own where they may change, wired to each other as the first model's are."""

import copy

import pytest
import torch
from botorch.models.transforms.input import Normalize
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel

from kappasharp.integrations.botorch import KappaSharpGP, kernel

X = torch.tensor([[0.1, 0.9], [0.4, 0.2], [0.8, 0.5]], dtype=torch.float64)
P = torch.tensor([[0, 1], [2, 0]])
NEW, ANSWER = torch.tensor([[0.3, 0.3], [0.6, 0.1]], dtype=torch.float64), torch.tensor([[1, 0]])


def both():
    return (ScaleKernel(RBFKernel()) + MaternKernel(nu=1.5)).double()


KERNELS = {
    "default": lambda: None, "matern": lambda: ScaleKernel(MaternKernel(ard_num_dims=2)).double(), "sum": both,
}  # fmt: skip


class Stubborn(RBFKernel):
    """A kernel that says itself how it is copied."""

    def __deepcopy__(self, memo):
        twin = Stubborn().double()
        twin.load_state_dict(self.state_dict())
        twin.said = True
        return twin


def conditioned(module=None):
    model = KappaSharpGP(X, P, covar_module=module, input_transform=Normalize(2))
    return model, model.condition_on_observations(NEW, ANSWER)


@pytest.mark.parametrize("name", KERNELS)
def test_a_copy_is_what_deepcopy_gives(name):
    model, _ = conditioned(KERNELS[name]())
    mine, theirs = kernel.copied(model), copy.deepcopy(model._modules)
    for part in ("covar_module", "mean_module", "input_transform"):
        names = [[key for key, _ in found[part].named_modules()] for found in (mine, theirs)]
        assert names[0] == names[1]
        for one, other in zip(mine[part].modules(), theirs[part].modules(), strict=True):
            assert type(one) is type(other) and vars(one).keys() == vars(other).keys()
        first, second = mine[part].state_dict(), theirs[part].state_dict()
        assert first.keys() == second.keys() and all(torch.equal(first[key], second[key]) for key in first)


@pytest.mark.parametrize("name", KERNELS)
def test_no_tensor_of_a_hyperparameter_is_shared(name):
    model, further = conditioned(KERNELS[name]())
    addresses = [{part.data_ptr() for part in one.covar_module.parameters()} for one in (model, further)]
    assert addresses[0] and not addresses[0] & addresses[1]
    wanted = [part.requires_grad for part in model.covar_module.parameters()]
    assert [part.requires_grad for part in further.covar_module.parameters()] == wanted


def test_priors_and_hooks_are_bound_to_the_copy():
    model, further = conditioned()
    for one in (model, further):
        scale = one.covar_module
        for module, prior in ((scale, "outputscale_prior"), (scale.base_kernel, "lengthscale_prior")):
            assert all(closure.__self__ is module for closure in module._priors[prior][1:])
            hooks = module._load_state_dict_pre_hooks.values()
            assert hooks and all(hook.hook.__self__ is module for hook in hooks)
    further.covar_module.outputscale = 7.0
    assert float(model.covar_module.outputscale.detach()) != 7.0
    _, module, prior, closure, _ = next(row for row in further.named_priors() if "outputscale" in row[0])
    assert float(closure(module).detach()) == pytest.approx(7.0) and prior is model.covar_module.outputscale_prior


def test_a_module_that_says_how_it_is_copied_is_asked():
    model, further = conditioned(ScaleKernel(Stubborn()).double())
    assert further.covar_module.base_kernel.said and not hasattr(model.covar_module.base_kernel, "said")


@pytest.mark.parametrize("name", KERNELS)
def test_the_surrogate_of_an_extended_model_is_kept_until_something_changes(name):
    _, further = conditioned(KERNELS[name]())
    before = further._cache
    assert before is not None and before.key.is_that_of(further._key()) and further._current() is before
    next(further.covar_module.parameters()).data.add_(0.1)
    assert further._current() is not before
