from tnlpad.grid.demo import Curves, Job


def fake_outcomes(config, sigma_validation, sigma_test):
    def curves(validation, test):
        return Curves(test=(0.1, test), validation=(0.9, validation), memorised=(0.0, 0.5))

    outcomes = {}
    for seed in config.seeds:
        outcomes[Job(config, seed, None)] = {"plain": curves(0.4, 0.5 + seed / 10)}
        for c2, validation, test in zip(config.c2_candidates, sigma_validation, sigma_test, strict=True):
            outcomes[Job(config, seed, c2)] = {"w": curves(0.3, 0.5), "sigma": curves(validation, test)}
    return outcomes
