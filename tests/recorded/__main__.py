from tests.recorded import questions
